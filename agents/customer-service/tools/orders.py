"""What the agent may look at: orders and shipments. Changes nothing."""

from __future__ import annotations

import asyncio
import time
from typing import Annotated

from pydantic import Field

from loopengine import tool

from ._ledger import audited
from ._shop import SHIPMENTS, Order, Shipment, delay_s, find_order

OrderId = Annotated[str, Field(alias="orderId", description="The order's number, like A-1001.")]


@tool(read_only=True, timeout=30)
def lookup_order(order_id: OrderId) -> Order:
    """Look up an order: its status, items, total and how it was paid."""
    with audited("lookup_order", order_id):
        time.sleep(delay_s())
        return find_order(order_id)


@tool(read_only=True, timeout=30)
async def get_shipment_details(order_id: OrderId) -> Shipment:
    """Get the carrier, tracking number and history of an order's shipment."""
    with audited("get_shipment_details", order_id):
        await asyncio.sleep(delay_s())
        return SHIPMENTS[find_order(order_id).id]
