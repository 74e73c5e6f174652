"""Giving money back: an effect, so it runs at most once, and in production only after a person's approval."""

from __future__ import annotations

import hashlib
import time
from decimal import Decimal
from typing import Annotated

from pydantic import Field

from loopengine import ToolContext, tool

from ._ledger import audited
from ._shop import delay_s, find_order


@tool(timeout=60)
def issue_refund(
    context: ToolContext,
    order_id: Annotated[str, Field(alias="orderId", description="The order's number, like A-1001.")],
    amount: Annotated[float | None, Field(gt=0, description="Dollars; left out: the whole order.")] = None,
    reason: Annotated[str, Field(description="Why, in the customer's words.")] = "",
) -> dict[str, str]:
    """Refund an order to the payment method it was paid with."""
    order = find_order(order_id)
    refund = order.total if amount is None else Decimal(str(amount)).quantize(Decimal("0.01"))
    if refund > order.total:
        raise ValueError(f"the refund of ${refund} is more than the order's total of ${order.total}")
    with audited("issue_refund", order.id, f"{refund:.2f}"):
        time.sleep(delay_s())
    # The payment provider would get this key too: two attempts at one call are then one refund.
    receipt = "R-" + hashlib.sha256(context.idempotency_key.encode()).hexdigest()[:8].upper()
    answer = {"receipt": receipt, "orderId": order.id, "refunded": f"${refund:.2f}", "to": order.paid_with}
    return answer | ({"reason": reason} if reason else {})
