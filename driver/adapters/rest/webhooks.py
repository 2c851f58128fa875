"""Routes about webhooks: how each is, and a test of one."""

from fastapi import APIRouter, Depends

from holdfast.driver.adapters.rest.guard import NO_PARAMETERS, PREFIX, Driver, person
from holdfast.driver.adapters.rest.problems import Problem, not_found
from holdfast.driver.adapters.rest.view import View

router = APIRouter(
    prefix=f"{PREFIX}/webhooks", tags=["webhooks"], dependencies=[Depends(person), NO_PARAMETERS]
)


class WebhookView(View):
    """A receiver, without its address, which may be a secret."""

    name: str
    format: str
    """json or slack."""
    signed: bool
    sent: int
    """Since this driver leads."""
    given_up: int
    """That it did not take within a day, or refused."""
    behind: int
    """Entries of the journal that it was not yet asked about."""
    trouble: str
    """Why it did not take the last; empty where it did."""


class WebhookList(View):
    items: list[WebhookView]


class TakenView(View):
    """An example was taken."""

    name: str
    taken: bool


@router.get("")
async def list_webhooks(control: Driver) -> WebhookList:
    """Who is told what happens, and how that goes."""
    found = control.webhooks.health() if control.webhooks else []
    return WebhookList(
        items=[
            WebhookView(
                name=each.name,
                format=each.format,
                signed=each.signed,
                sent=each.sent,
                given_up=each.given_up,
                behind=each.behind,
                trouble=each.trouble,
            )
            for each in found
        ]
    )


@router.post("/{webhook}/test")
async def send_example(webhook: str, control: Driver) -> TakenView:
    """Send it an example now, once. Its id is `test`."""
    names = control.webhooks.names if control.webhooks else []
    if control.webhooks is None or webhook not in names:
        raise not_found("webhook", webhook, names)
    if why := await control.webhooks.test(webhook):
        raise not_taken(webhook, why)
    return TakenView(name=webhook, taken=True)


def not_taken(name: str, why: str) -> Problem:
    """503 with the receiver's own failure."""
    return Problem(503, f"webhook {name}: {why}.", fix="Look at its address, and at its receiver.")
