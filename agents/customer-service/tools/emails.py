"""Writing to customers: only ever to the address of the order's own account."""

from __future__ import annotations

import time
from typing import Annotated

from pydantic import Field

from loopengine import tool

from ._ledger import audited
from ._shop import delay_s, find_order


@tool(timeout=60, on_interrupt="fail")
def send_email(
    order_id: Annotated[str, Field(alias="orderId", description="The order whose customer gets the e-mail.")],
    subject: Annotated[str, Field(min_length=1, max_length=200)],
    body: Annotated[str, Field(min_length=1, description="Plain text.")],
) -> str:
    """Send an e-mail to the customer of an order."""
    order = find_order(order_id)
    with audited("send_email", order.id, order.email):
        time.sleep(delay_s())
    return f"Sent {subject!r} ({len(body)} characters) to {order.email}."
