"""DiscoveringEnumerator: an author writes one method; queue, state and restarts come with it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import pytest

from flip27_source.coordination.batch_limits import Limits
from flip27_source.coordination.checkpoints import Snapshot
from flip27_source.coordination.coordinator import SourceCoordinator
from flip27_source.coordination.subtask_reports import SplitResult, SplitStatus, SubtaskReport
from flip27_source.discovery import DiscoveringEnumerator, Discovery
from flip27_source.enumerator_context import Boundedness
from flip27_source.errors import ContractError, DiscoveryError
from flip27_source.options import Options
from flip27_source.snapshots.codec import EncodedDocument, SnapshotCodec
from flip27_source.snapshots.documents import SourceIdentity, decode_document
from flip27_source.source_options import CORE_OPTIONS
from tests.toy_sources import Works, all_ids, coordinator_of, freeze, frozen


@dataclass(frozen=True, slots=True)
class Page:
    split_id: str


class Pages(DiscoveringEnumerator[Page]):
    """Discovers, round by round, the names in ``rounds``; the position counts the rounds."""

    rounds: ClassVar[list[list[str]]] = []
    asked: ClassVar[list[int | None]] = []

    def discover(self, position: int | None) -> Discovery[Page, int]:
        self.asked.append(position)
        number = position or 0
        found = self.rounds[number] if number < len(self.rounds) else []
        return Discovery([Page(name) for name in found], number + (1 if number < len(self.rounds) else 0))


@pytest.fixture(autouse=True)
def _fresh() -> None:
    Pages.rounds.clear()
    Pages.asked.clear()


def options(**texts: str) -> Options:
    return Options.parse(texts, CORE_OPTIONS)


IDENTITY = SourceIdentity(
    uid="u", enumerator="e", reader="r", state_version=1, split_version=1, library="0.1.0"
)


def stored(snapshot: Snapshot[Any], kind: type[DiscoveringEnumerator[Any]] = Pages) -> EncodedDocument:
    """The document from which a restart restores the snapshot."""
    return SnapshotCodec(kind).encode(snapshot, source=IDENTITY, parent=None, inline_all=True)


def restored(
    document: EncodedDocument, kind: type[DiscoveringEnumerator[Any]] = Pages
) -> tuple[SourceCoordinator[Any], Works]:
    works = Works()
    snapshot = SnapshotCodec(kind).decode(decode_document(document.data, document.name), lambda _: b"")
    return coordinator_of(kind, options=options(), runner=works, restored=snapshot, parallelism=1), works


def started(
    kind: type[DiscoveringEnumerator[Any]] = Pages, **changes: Any
) -> tuple[SourceCoordinator[Any], Works]:
    works = Works()
    return coordinator_of(kind, options=options(), runner=works, parallelism=1, **changes), works


def discovered(*rounds: Iterable[str]) -> SourceCoordinator[Any]:
    """A coordinator to which the results of these rounds were delivered."""
    Pages.rounds[:] = map(list, rounds)
    coordinator, works = started()
    for _ in rounds:
        works.run(coordinator)
    return coordinator


def test_discovered_splits_are_assigned_in_order() -> None:
    Pages.rounds[:] = [["b", "a"], ["c"]]
    coordinator, works = started()
    assert freeze(coordinator) is None
    works.run(coordinator)
    works.run(coordinator)
    (assignment,) = frozen(coordinator).snapshot.plan.assignments
    assert [split.split_id for split in assignment.splits] == ["b", "a", "c"]


@pytest.mark.parametrize("status", [None, SplitStatus.FAILED, SplitStatus.IGNORED])
def test_an_id_that_comes_back_once_its_split_is_finished_or_given_up_is_read_again(
    status: SplitStatus | None,
) -> None:
    Pages.rounds[:] = [["a"], ["a"]]
    coordinator, works = started()
    coordinator.settings = replace(coordinator.settings, max_quarantined_splits=1)
    for number in (1, 2):
        works.run(coordinator)
        (assignment,) = frozen(coordinator).snapshot.plan.assignments
        assert [split.split_id for split in assignment.splits] == ["a"]
        if status is not None:
            result: SplitResult[Any] = SplitResult(split_id="a", status=status)
            coordinator.acknowledge(SubtaskReport(checkpoint_id=number, subtask_id=0, results=(result,)))
        coordinator.complete(number)


@pytest.mark.parametrize("rounds", [(["a", "a"],), (["a"], ["b", "a"])])
def test_an_id_that_comes_back_while_its_split_is_not_finished_is_refused(
    rounds: tuple[list[str], ...],
) -> None:
    with pytest.raises(ContractError, match="split 'a' was assigned while a split with this id is still in"):
        frozen(discovered(*rounds))


def test_each_round_is_given_the_position_of_the_round_before() -> None:
    Pages.rounds[:] = [["a"], [], ["b"]]
    coordinator, works = started()
    for _ in range(4):
        works.run(coordinator)
    assert Pages.asked == [None, 1, 2, 3]


def test_a_run_without_end_discovers_again_and_a_bounded_one_once() -> None:
    for boundedness, period_s in ((Boundedness.CONTINUOUS_UNBOUNDED, 1.0), (Boundedness.BOUNDED, None)):
        _, works = started(boundedness=boundedness)
        ((_, _, found, retry),) = works.submitted
        assert (found, retry.retries) == (period_s, 3)


def test_interval_and_retries_follow_the_options() -> None:
    works = Works()
    coordinator_of(Pages, options=options(discoveryInterval="5 minutes", discoveryRetries="0"), runner=works)
    ((_, _, period_s, retry),) = works.submitted
    assert (period_s, retry.retries) == (300.0, 0)


def test_waiting_splits_and_the_position_survive_a_restart_S57_S91() -> None:
    Pages.rounds[:] = [["a", "b"], ["c", "d"], ["e"]]
    coordinator, works = started()
    works.run(coordinator)
    works.run(coordinator)
    first = frozen(coordinator, Limits(files=1))
    again, works = restored(stored(first.snapshot))
    works.run(again)
    assert Pages.asked[-1] == 2
    (assignment,) = frozen(again).snapshot.plan.assignments
    assert [split.split_id for split in assignment.splits] == ["b", "c", "d", "e"]


def test_a_limit_may_end_a_batch_inside_a_page_and_a_restart_continues_there() -> None:
    coordinator = discovered("abc", "d", "ef")
    read = []
    for _ in range(3):
        pending = frozen(coordinator, Limits(files=2))
        read.append(all_ids(pending.snapshot.plan))
        coordinator, _ = restored(stored(pending.snapshot))
    assert read == [["a", "b"], ["c", "d"], ["e", "f"]]
    assert freeze(coordinator) is None


def test_the_position_of_a_checkpoint_is_that_of_the_delivered_results() -> None:
    """A round that has ended but whose result is not delivered yet is not part of the state."""
    Pages.rounds[:] = [["a"], ["b"]]
    coordinator, works = started()
    works.run(coordinator)
    work, handler, _, _ = works.submitted[0]
    late = work()
    pending = frozen(coordinator)
    assert pending.snapshot.enumerator_state.position == 1
    coordinator.handle_result(handler, late, None)
    coordinator.complete(1)
    assert all_ids(frozen(coordinator).snapshot.plan) == ["b"]
    again, works = restored(stored(pending.snapshot))
    works.run(again)
    assert all_ids(frozen(again).snapshot.plan) == ["b"]


def test_a_restart_continues_inside_a_page_that_was_written_before() -> None:
    """At the second freeze the page is still the segment of the first; only more of it is taken."""
    coordinator = discovered("abcde")
    frozen(coordinator, Limits(files=1))
    coordinator.complete(1)
    second = frozen(coordinator, Limits(files=1))
    assert second.snapshot.enumerator_state.pages[0].taken > 0
    again, _ = restored(stored(second.snapshot))
    assert all_ids(frozen(again).snapshot.plan) == ["c", "d", "e"]


def test_returned_splits_are_assigned_first() -> None:
    coordinator = discovered("abc")
    enumerator = coordinator.enumerator
    frozen(coordinator, Limits(files=1))
    coordinator.complete(1)
    enumerator.add_splits_back([Page("back")], 0)
    (assignment,) = frozen(coordinator).snapshot.plan.assignments
    back = [split.split_id for split in assignment.splits]
    assert set(back) == {"back", "b", "c"}
    assert back.index("back") < back.index("c")


def test_a_page_is_written_once_and_later_batches_change_only_its_count() -> None:
    """However many splits wait, a batch only changes a number in the state."""
    coordinator = discovered(map(str, range(1000)))
    names = []
    for number in range(1, 5):
        state = frozen(coordinator, Limits(files=10)).snapshot.enumerator_state
        names.append([(page.splits.name, page.taken) for page in state.pages])
        coordinator.complete(number)
    ((name, taken),) = names[0]
    assert names == [[(name, taken + 10 * n)] for n in range(4)]


def test_many_small_waiting_rounds_do_not_enlarge_every_document() -> None:
    """Discovery is faster than the batches: 2,000 rounds find a split each, and a batch takes one split."""
    coordinator = discovered(*([str(number)] for number in range(2000)))
    pending = frozen(coordinator, Limits(files=1))
    document = SnapshotCodec(Pages).encode(pending.snapshot, source=IDENTITY, parent=None, inline_all=False)
    assert len(document.data) < 64 * 1024
    assert len(document.segments) < 100


def test_the_backlog_is_published() -> None:
    coordinator = discovered("abc")
    assert coordinator.gauges["pendingSplits"] == 3
    assert frozen(coordinator, Limits(files=1)).summary.gauges["pendingSplits"] in (1, 2)
    coordinator.complete(1)
    frozen(coordinator)
    assert coordinator.gauges["pendingSplits"] == 0


@dataclass(frozen=True, slots=True)
class NewPage:
    split_id: str
    region: str
    weight: float | None = None


class NewPages(DiscoveringEnumerator[NewPage]):
    """The same source with splits of version 2, which have a region."""

    split_version: ClassVar[int] = 2

    def discover(self, position: int | None) -> Discovery[NewPage, int]:
        return Discovery([], position or 0)

    @classmethod
    def upgrade_split(cls, version: int, raw: Any) -> Any:
        return {**raw, "region": f"from version {version}"}


def test_waiting_splits_of_an_older_version_go_through_the_upgrade_hook_S67() -> None:
    document = stored(frozen(discovered("abc"), Limits(files=1)).snapshot)
    again, _ = restored(document, NewPages)
    plan = frozen(again).snapshot.plan
    assert [split for item in plan.assignments for split in item.splits] == [
        NewPage("b", "from version 1"),
        NewPage("c", "from version 1"),
    ]


@pytest.mark.parametrize(
    ("made", "named"),
    [({"region": 5}, r"got `int` - at `\$\.region`"), ({"weight": float("nan")}, "weight is nan")],
)
def test_an_upgrade_of_waiting_splits_to_the_wrong_type_is_refused(made: dict[str, Any], named: str) -> None:
    class Wrong(NewPages):
        @classmethod
        def upgrade_split(cls, version: int, raw: Any) -> Any:
            return {**raw, "region": "r", **made}

    document = stored(frozen(discovered("ab"), Limits(files=1)).snapshot)
    with pytest.raises(ContractError, match=named):
        restored(document, Wrong)


def test_upgraded_splits_that_still_wait_are_stored_in_their_new_form() -> None:
    again, _ = restored(stored(frozen(discovered("abc"), Limits(files=1)).snapshot), NewPages)
    pending = frozen(again, Limits(files=1))
    upgraded = replace(IDENTITY, split_version=2)
    document = SnapshotCodec(NewPages).encode(pending.snapshot, source=upgraded, parent=None, inline_all=True)
    third, _ = restored(document, NewPages)
    assert all_ids(frozen(third).snapshot.plan) == ["c"]


def test_the_split_type_comes_from_the_enumerator_and_not_from_another_base_class() -> None:
    class Both(Sequence[int], DiscoveringEnumerator[Page]):
        def discover(self, position: int | None) -> Discovery[Page, int]:
            return Discovery([], 0)

    assert Both.resolve_split_type() is Page


def test_discovered_splits_may_be_an_iterable_that_can_be_read_only_once() -> None:
    """Many authors will return a generator; it is consumed on the thread that made it."""

    class Generates(Pages):
        def discover(self, position: int | None) -> Discovery[Page, int]:
            return Discovery((Page(name) for name in ("a", "b")), 1)  # type: ignore[arg-type]

    coordinator, works = started(Generates)
    works.run(coordinator)
    assert all_ids(frozen(coordinator).snapshot.plan) == ["a", "b"]


def test_the_remedy_of_a_discovery_error_is_shown_once_with_the_next_steps() -> None:
    coordinator, works = started()
    ((_, handler, _, _),) = works.submitted
    cause = DiscoveryError("the folder is locked", remedy="unlock it")
    with pytest.raises(DiscoveryError, match="could not discover splits: the folder is locked") as caught:
        coordinator.handle_result(handler, None, cause)
    assert str(caught.value).count("What to do") == 1
    assert caught.value.remedy is not None
    assert caught.value.remedy.startswith("unlock it; then restart the query")
