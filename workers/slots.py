"""The turns that this worker runs: claiming, running, comparing with the store, and giving back.

Jobs wake, claims choose: what is woken claims due turns until its slots are full or nothing is due, and a slot whose
turn has left claims the next one by itself.
"""

from __future__ import annotations

import asyncio
import contextlib

import orjson
import structlog

from engine.agents.registry import AgentRegistry
from engine.drafts import Terms
from engine.fold import TooNew
from engine.loop import run_turn
from engine.perform import Services
from engine.settings import Settings
from engine.store.connection import Connection, client
from engine.store.keys import Keys, turn_id_of
from engine.store.opening import open_store
from engine.store.store import Claim, Commit, Ending, Store, new_token
from engine.store.waker import Waker
from engine.turn import Turn
from protocol.errors import NotFound, OperatorError, StoreUnavailable, TurnLost
from workers.beat import Beat
from workers.sweep import Sweep

log = structlog.get_logger("workers")

LAST_WORDS_S = 3.0  # a worker that stops waits no longer than this for a store that does not answer
NOT_HERE_DELAY_MS = 5000  # a turn that this worker cannot run is due again after this, for one that can


class TurnSlots:
    """Everything between RQ's jobs and the loop. ``rq``: the connection of RQ's Redis."""

    def __init__(
        self, store: Store, rq: Connection, agents: AgentRegistry, settings: Settings, redis_url: str, name: str
    ) -> None:
        self.name = name
        self._store = store
        self._rq = rq
        self._agents = agents
        self._settings = settings
        self._waker = Waker(rq, store.connection, settings.queue)
        self._beat = Beat(redis_url, store.partitions, name, settings.blocked_s)
        self._sweep = Sweep(store, name, settings.lease_s, self._waker.wake_if_idle)
        self._slots: set[asyncio.Task[None]] = set()
        self._turns: dict[str, Turn] = {}
        self._running: dict[str, asyncio.Task[None] | None] = {}  # None: claimed, about to run
        self._suspects: set[str] = set()
        self._strangers: dict[int, set[tuple[str, str]]] = {}
        self._claiming = asyncio.Lock()
        self._next_partition = 0
        self._draining = False
        self._rounds: asyncio.Task[None] | None = None

    # -- what RQ's side uses

    def free(self) -> int:
        return 0 if self._draining else max(0, self._settings.concurrency - len(self._slots))

    async def start(self) -> None:
        await self._beat.start()
        self._rounds = asyncio.create_task(self._keep_house(), name="house-keeping")

    async def pump(self) -> None:
        """Claim due turns until the slots are full or nothing is due; returns when the slots that this call opened
        are empty again."""
        mine: set[asyncio.Task[None]] = set()
        more = True
        while more and self.free() and (claim := await self._claim()):
            more = claim.more or len(self._store.partitions) > 1
            slot = asyncio.create_task(self._fill(claim), name="slot")
            self._slots.add(slot)
            slot.add_done_callback(self._slots.discard)
            mine.add(slot)
        if mine:
            await asyncio.wait(mine)
        else:
            log.debug("a wake-up found nothing to do: no turn is due here that nobody has", running=len(self._slots))

    async def drain(self, grace_s: float) -> None:
        """Claim nothing more and give each turn back at its next commit; after ``grace_s`` the rest is left to the
        others as it stands."""
        self._draining = True
        for turn in self._turns.values():
            turn.hand_back = True
        if self._slots:
            await asyncio.wait(self._slots, timeout=grace_s)
        left = set(self._running)
        for slot in list(self._slots):
            slot.cancel()
        await asyncio.gather(*self._slots, return_exceptions=True)
        await self._beat.stop()  # or its counter would come back
        try:
            async with asyncio.timeout(LAST_WORDS_S):
                await self._leave(left)
        except TimeoutError:
            log.warning("the store does not answer; the turns of this worker are left to the others' sweep")

    async def _leave(self, left: set[str]) -> None:
        async with self._claiming:  # a claim that is still under way brings one more to give back
            left |= self._running.keys()
            for keys in self._store.partitions:
                await self._store.release(keys, self.name, "own", deaths=0, own=list(left))
                await self._store.connection.command("HDEL", keys.beats, self.name)
        await self._waker.wake_if_idle("handed back")

    async def aclose(self) -> None:
        if self._rounds:
            self._rounds.cancel()
            await asyncio.gather(self._rounds, return_exceptions=True)
        await self._beat.stop()
        if self._rq is not self._store.connection:
            await self._rq.aclose()
        await self._store.connection.aclose()

    # -- claiming and running

    async def _claim(self) -> Claim | None:
        async with self._claiming:
            for _ in self._store.partitions:
                if self._draining:
                    return None
                keys = self._store.partitions[self._next_partition]
                claim = await self._store.claim(
                    keys,
                    self.name,
                    new_token(),
                    tenant_limit=self._settings.max_running_per_tenant,
                    suspects=not self._has_suspect(),
                )
                if isinstance(claim, Claim):
                    self._running[claim.ref] = None
                    if claim.deaths:
                        self._suspects.add(claim.ref)
                    return claim
                self._next_partition = (self._next_partition + 1) % len(self._store.partitions)
            return None

    def _has_suspect(self) -> bool:
        """Does this process run a turn whose last owner was lost, and that has finished nothing here yet?"""
        return any(ref not in self._turns or not self._turns[ref].made_progress for ref in self._suspects)

    async def _fill(self, first: Claim) -> None:
        """One slot: run the turn, then whatever could not be claimed because of it, until there is none."""
        claim: Claim | None = first
        while claim:
            run = asyncio.create_task(self._run(claim), name=f"turn {claim.turn_id}")
            self._running[claim.ref] = run
            try:
                await asyncio.wait((run,))
            finally:
                run.cancel()
                held_back = self._held_back(claim)
                self._running.pop(claim.ref, None)
                self._turns.pop(claim.ref, None)
                self._suspects.discard(claim.ref)
            claim = await self._claim() if held_back else None

    def _held_back(self, claim: Claim) -> bool:
        """Can there be a due turn that was not claimed because of this one? Others have wake-ups of their own."""
        turn = self._turns.get(claim.ref)
        if turn is None or not turn.left or turn.next_turn:
            return True  # it was lost and may be due again, or it made the next one of its session due
        return not self.free() or claim.ref in self._suspects or self._settings.max_running_per_tenant > 0

    async def _run(self, claim: Claim) -> None:
        keys = self._keys_of(claim)
        try:
            await self._take_on(keys, claim)
        except TurnLost as lost:
            log.info("turn left this worker", turn=claim.turn_id, why=str(lost))
        except (NotFound, OperatorError, TooNew) as problem:
            log.warning("turn given back: this worker cannot run it", turn=claim.turn_id, why=str(problem))
            await self._give_back(keys, claim, str(problem))
        except asyncio.CancelledError:
            raise
        except BaseException:  # extensions in Rust panic outside of Exception
            # A fault of ours, not of the turn's: it counts like a lost worker, so that it ends after a few.
            log.exception("turn crashed", turn=claim.turn_id)
            await self._store.release(keys, self.name, "own", deaths=1, own=[claim.ref])
            await self._waker.wake_if_idle(claim.turn_id)

    async def _take_on(self, keys: Keys, claim: Claim) -> None:
        fields = claim.fields
        agent = self._agents.get(fields["agent"])
        services = Services(
            agent.model(self._settings),
            self._settings.tool_timeout_s,
            self._beat.steady,
            self._settings.turn_timeout_s,
        )
        terms = Terms(
            turn_id=claim.turn_id,
            session_id=fields["sid"],
            tenant=fields["tenant"],
            environment=fields["env"],
            agent=fields["agent"],
            message=orjson.loads(fields["input"])["message"],
            claim=claim.token,
            fingerprint=agent.fingerprint,
            max_turns=agent.max_turns,
            approval_expiry_s=self._settings.approval_expiry_s,
        )
        turn = Turn(self._store, keys, claim, terms)
        turn.hand_back = self._draining
        self._turns[claim.ref] = turn
        await run_turn(turn, agent, services)

    async def _give_back(self, keys: Keys, claim: Claim, why: str) -> None:
        ending = Ending("queue", NOT_HERE_DELAY_MS, f"no worker could run it yet: {why}")
        with contextlib.suppress(TurnLost):
            await self._store.commit(
                keys, Commit(claim.ref, claim.session, claim.token, claim.n_events, claim.n_log, (), (), ending)
            )

    def _keys_of(self, claim: Claim) -> Keys:
        return self._store.keys_for(claim.fields["tenant"])

    # -- house-keeping, once a second

    async def _keep_house(self) -> None:
        while True:
            await asyncio.sleep(self._settings.sweep_s)
            try:
                await self._compare()
                if not self._draining:
                    await self._sweep.round()
            except StoreUnavailable as error:
                log.warning("sweep put off", error=str(error))
            except Exception:
                log.exception("sweep failed; the next round tries again")

    async def _compare(self) -> None:
        """Hold the store's list of this worker's turns against its own, for two rounds: what it does not know is
        released (the reply of a claim was lost), what the store does not list is stopped (cancelled elsewhere)."""
        for keys in self._store.partitions:
            members = await self._store.connection.command(
                "ZRANGEBYLEX", keys.running, f"[{self.name}|", f"({self.name}}}"
            )
            listed = {member.decode().split("|", 1)[1] for member in members}
            known = {ref for ref in self._running if self._partition_of(ref) in (None, keys)}
            strangers = {("unknown", ref) for ref in listed - self._running.keys()}
            strangers |= {("unlisted", ref) for ref in known - listed}
            twice = strangers & self._strangers.get(keys.partition, set())
            self._strangers[keys.partition] = strangers - twice
            for what, ref in twice:
                await self._settle_difference(keys, what, ref)

    def _partition_of(self, ref: str) -> Keys | None:
        turn = self._turns.get(ref)
        return turn.keys if turn else None

    async def _settle_difference(self, keys: Keys, what: str, ref: str) -> None:
        if what == "unlisted":
            run = self._running.get(ref)
            if run and self._partition_of(ref):
                log.info("turn was taken from this worker; its tools are cancelled", turn=turn_id_of(ref))
                run.cancel()
                # Cancelled, or of another owner: then this releases nothing. Otherwise only its entry was lost.
                if await self._store.release(keys, self.name, "own", deaths=0, own=[ref]):
                    await self._waker.wake_if_idle(turn_id_of(ref))
        elif ref not in self._running:
            log.warning("a claim's reply was lost; its turn goes back", turn=turn_id_of(ref))
            await self._store.release(keys, self.name, "own", deaths=0, own=[ref])
            await self._waker.wake_if_idle(turn_id_of(ref))


async def open_slots(settings: Settings, *, redis_url: str, worker: str) -> TurnSlots:
    """Connect a worker's engine side. Raises StoreUnavailable, StoreUnsuitable."""
    store = await open_store(settings, redis_url, patience_s=None)
    rq = Connection(client(settings.rq_url), 2.0) if settings.rq_url else store.connection
    return TurnSlots(store, rq, AgentRegistry(settings.agents_dir, settings), settings, redis_url, worker)
