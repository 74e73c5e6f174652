"""The shop's data. A real agent would ask its systems; the shapes would be the same."""

from __future__ import annotations

import os
from dataclasses import dataclass
from decimal import Decimal


@dataclass(frozen=True)
class Order:
    id: str
    status: str
    customer: str
    email: str
    items: list[str]
    total: Decimal
    currency: str
    paid_with: str
    ordered_on: str


@dataclass(frozen=True)
class Shipment:
    order_id: str
    carrier: str
    tracking_number: str
    status: str
    history: list[str]


ORDERS = {
    "A-1001": Order(
        "A-1001", "delivered", "Jo Rivera", "jo@example.com", ["stoneware teapot, 1.2 l"],
        Decimal("42.00"), "USD", "card ending in 4242", "2026-11-16",
    ),
    "A-1002": Order(
        "A-1002", "shipped", "Sam Okafor", "sam@example.com", ["desk lamp", "LED bulb, warm white"],
        Decimal("63.50"), "USD", "PayPal", "2026-11-25",
    ),
}  # fmt: skip

SHIPMENTS = {
    "A-1001": Shipment(
        "A-1001", "Parcel Express", "PE-5530-1187", "delivered",
        ["2026-11-17 handed over", "2026-11-19 out for delivery", "2026-11-19 delivered, left at the door"],
    ),
    "A-1002": Shipment(
        "A-1002", "Parcel Express", "PE-5530-2042", "in transit",
        ["2026-11-26 handed over", "2026-11-28 arrived at the sorting centre"],
    ),
}  # fmt: skip


def find_order(order_id: str) -> Order:
    if order_id not in ORDERS:
        raise LookupError(f"there is no order {order_id!r}; the customer's orders look like A-1001")
    return ORDERS[order_id]


def delay_s() -> float:
    """How long the shop's systems take to answer, in seconds."""
    return float(os.environ.get("CUSTOMER_SERVICE_DELAY_SECONDS") or 0)
