"""Training state in files: restored bit for bit, and checked before anything is assigned."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import explorer as ex
from explorer.core.files import atomic_write

T = ex.train


def built(optimizer: Any = None, size: int = 5, dtype: str = "float32", loss: Any = None) -> Any:
    module = T.Module("m", loss=loss or T.CrossEntropy(), optimizer=optimizer or T.Adam(0.01), dtype=dtype)
    module.add_node(T.Linear("hidden", 6, size))
    module.add_node(ex.tanh)
    module.add_node(T.Linear("scores", size, 3))
    module.attach()
    return module


def loader() -> Any:
    generator = np.random.default_rng(2)
    return T.DataLoader(
        T.ArrayDataset(generator.normal(size=(30, 6)), generator.integers(3, size=30)), 8, shuffle=True, seed=4
    )


def weights(module: Any) -> dict[str, bytes]:
    return {name: held.array.tobytes() for name, held in module.parameters.items()}


@pytest.mark.spec("T-11", "C-17", headline=True)
@pytest.mark.parametrize("make", [lambda: T.Adam(T.Exp(0.01, 0.99)), lambda: T.Momentum(0.1), lambda: T.Ftrl(0.5)])
def test_restored_training_continues_bit_for_bit(tmp_path: Path, make: Any) -> None:
    """Dump and restore a module with one call each; training then continues bit for bit."""
    whole, first, second = built(make()), built(make()), built(make())
    whole_loader, first_loader, second_loader = loader(), loader(), loader()
    history = whole.fit(whole_loader, 6)
    first.fit(first_loader, 3)
    first.save(tmp_path / "run.npz", first_loader)
    second.fit(second_loader, 1)
    second.restore(tmp_path / "run.npz", second_loader)
    assert [epoch.loss for epoch in second.fit(second_loader, 3)] == [epoch.loss for epoch in history[3:]]
    assert weights(second) == weights(whole)
    assert second.optimizer.iteration == whole.optimizer.iteration


class Stopped(BaseException):
    """An external stop, such as an interrupt."""


def stopped_at(step: int, phase: str, module: Any, loader: Any, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Train up to a step, and stop before its batch is read, before its update, or after it."""
    optimizer = module.optimizer
    place, method = {"batch": (loader, "load"), "before": (optimizer, "begin"), "after": (optimizer, "commit")}[phase]
    original = getattr(place, method)

    def watched(*arguments: Any) -> Any:
        last = optimizer.iteration == step
        result = None if last and phase == "before" else original(*arguments)
        if last:
            raise Stopped
        return result

    with monkeypatch.context() as patch:
        patch.setattr(place, method, watched)
        with pytest.raises(Stopped):
            module.fit(loader, 3, checkpoint=path)


@pytest.mark.spec("T-11", "C-17")
@pytest.mark.parametrize("phase", ["batch", "before", "after"])
@pytest.mark.parametrize("step", [1, 2, 3, 4, 5, 7, 10])
def test_training_stopped_at_any_batch_continues_bit_for_bit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int, phase: str
) -> None:
    """`fit(checkpoint=…)` stores the loader's position in mid-epoch."""
    whole, first, second = built(), built(), built()
    whole.fit(loader(), 3)
    stopped_at(step, phase, first, loader(), tmp_path / "run.npz", monkeypatch)
    second_loader = loader()
    second.restore(tmp_path / "run.npz", second_loader)
    steps = second.optimizer.iteration
    assert steps == step + (phase == "after")
    history = second.fit(second_loader, 3 - steps // 4)
    assert history[0].samples == 30 - 8 * (steps % 4)
    assert second.optimizer.iteration == whole.optimizer.iteration == 12
    assert weights(second) == weights(whole)
    assert {k: v.tobytes() for k, v in second.optimizer.state().items()} == {
        k: v.tobytes() for k, v in whole.optimizer.state().items()
    }


@pytest.mark.spec("C-17")
def test_checkpoints_are_written_every_n_batches(tmp_path: Path) -> None:
    positions = []

    class Noted(T.DataLoader):
        def state(self) -> dict[str, Any]:
            positions.append((super().state()["epoch"], super().state()["batch"]))
            return super().state()

    noted = loader()
    noted.__class__ = Noted
    built().fit(noted, 2, checkpoint=tmp_path / "run.npz", every_batches=3)
    assert positions == [(0, 3), (1, 0), (1, 3), (2, 0)]
    with pytest.raises(ex.OperandError, match="every_batches"):
        built().fit(noted, 2, checkpoint=tmp_path / "run.npz", every_batches=0)


@pytest.mark.spec("C-17")
def test_a_stop_before_the_first_step_keeps_the_file(tmp_path: Path) -> None:
    path = tmp_path / "run.npz"
    built().fit(loader(), 1, checkpoint=path)
    before = path.read_bytes()
    with pytest.raises(ex.OperandError):
        built().fit([(np.ones((8, 5)), np.zeros(8, int))], checkpoint=path)
    assert path.read_bytes() == before


@pytest.mark.spec("C-17")
def test_batches_without_a_position_are_trained_on_and_saved(tmp_path: Path) -> None:
    module, other = built(), built()
    module.fit([*loader()], 1, checkpoint=tmp_path / "run.npz")
    other.restore(tmp_path / "run.npz")
    assert weights(other) == weights(module)


@pytest.mark.spec("T-11")
def test_a_position_in_an_epoch_with_another_order_raises_an_error(tmp_path: Path) -> None:
    module, whole = built(), loader()
    batches = iter(whole)
    module.train_on(*next(batches))
    module.save(tmp_path / "mid.npz", whole)
    module.train_on(*next(batches))
    assert len([*batches]) == 2
    module.save(tmp_path / "end.npz", whole)
    for name, value in (("batch_size", 4), ("seed", 5), ("shuffle", False), ("drop_last", True)):
        other = loader()
        setattr(other, name, value)
        target = built()
        before = weights(target)
        with pytest.raises(ex.FileError, match=name):
            target.restore(tmp_path / "mid.npz", other)
        assert weights(target) == before
        target.restore(tmp_path / "end.npz", other)
        assert other.epoch == 1
    with pytest.raises(ex.OperandError, match="an epoch has 4 batches"):
        loader().load_state({**whole.state(), "batch": 4})


@pytest.mark.spec("C-17")
def test_checkpoints_are_written_every_n_epochs(tmp_path: Path) -> None:
    target = tmp_path / "run.npz"
    module, epochs = built(), []

    class Watched(type(loader())):  # type: ignore[misc]
        def __iter__(self) -> Any:
            if target.exists():
                other = built()
                other.restore(target)
                epochs.append(other.optimizer.iteration // 4)
            return super().__iter__()

    value = loader()
    value.__class__ = Watched
    module.fit(value, 5, checkpoint=target, every=2)
    assert epochs == [2, 2, 4]
    other = built()
    other.restore(target, loader())
    assert other.optimizer.iteration == 5 * 4
    assert weights(other) == weights(module)


@pytest.mark.spec("T-11")
def test_the_file_is_readable_with_numpy(tmp_path: Path) -> None:
    module = built()
    module.save(tmp_path / "m.npz")
    with np.load(tmp_path / "m.npz") as stored:
        assert (stored["weight/hidden/weight"] == module.parameters["hidden/weight"].array).all()


@pytest.mark.spec("T-11", "C-17")
def test_a_mismatch_raises_an_error_before_anything_is_assigned(tmp_path: Path) -> None:
    target = tmp_path / "m.npz"
    built().save(target)
    for other, given in (
        (built(size=4), "the weight 'hidden/"),
        (built(T.SGD(0.1)), "whose rule is 'Adam'"),
        (built(dtype="float64"), "whose dtype is 'float32'"),
        (built(loss=T.NegativeLogLikelihood()), "whose loss is 'CrossEntropy'"),
    ):
        before = weights(other)
        with pytest.raises(ex.FileError, match=given):
            other.restore(target)
        assert weights(other) == before
        assert other.optimizer.iteration == 0
    with pytest.raises(ex.FileError, match="position"):
        built().restore(target, loader())
    with pytest.raises(ex.FileError, match=r"ends with \.npz"):
        built().save(tmp_path / "m.json")
    with pytest.raises(ex.FileError):
        built().restore(tmp_path / "absent.npz")


@pytest.mark.spec("T-11")
@pytest.mark.parametrize(
    ("optimizer", "loss", "given"),
    [
        (lambda: T.Adam(0.02), T.CrossEntropy, "the rate's base 0.01"),
        (lambda: T.Adam(T.Exp(0.01, 0.9)), T.CrossEntropy, "the rate's type 'Fixed'"),
        (lambda: T.Adam(0.01, beta1=0.8), T.CrossEntropy, "the rule's beta1 0.9"),
        (lambda: T.Adam(0.01, weight_decay=0.1), T.CrossEntropy, "the weight_decay 0.0"),
        (lambda: T.Adam(0.01, clip_norm=1.0), T.CrossEntropy, "the clip_norm 0.0"),
        (
            lambda: T.Adam(0.01, groups=[T.ParameterGroup("hidden", rate=0.1)]),
            T.CrossEntropy,
            r"the groups \[\]\n  rule: the module's groups must be the same, but it is \[{'frozen': False",
        ),
        (lambda: T.Adam(0.01), lambda: T.CrossEntropy(0.1), "the loss's smoothing None"),
        (lambda: T.Adam(0.01), lambda: T.CrossEntropy(class_weights=[1, 2, 1]), "the loss's class_weights None"),
    ],
)
def test_other_settings_are_refused_unless_the_modules_own_are_asked_for(
    tmp_path: Path, optimizer: Any, loss: Any, given: str
) -> None:
    """A restored training goes on as it was; with own_settings it goes on by the module's own rate and options."""
    saved = built()
    saved.fit(loader(), 1)
    saved.save(tmp_path / "m.npz")
    other = built(optimizer(), loss=loss())
    before = weights(other)
    with pytest.raises(ex.FileError, match=given):
        other.restore(tmp_path / "m.npz")
    assert weights(other) == before
    assert other.optimizer.iteration == 0
    other.restore(tmp_path / "m.npz", own_settings=True)
    assert weights(other) == weights(saved)
    assert repr(other.optimizer) == repr(optimizer())
    other.save(tmp_path / "other.npz")
    again = built(optimizer(), loss=loss())
    again.restore(tmp_path / "other.npz")
    other.fit(loader(), 1)
    again.fit(loader(), 1)
    assert weights(again) == weights(other) != weights(saved)
    with pytest.raises(ex.OperandError, match="own_settings must be True or False"):
        other.restore(tmp_path / "m.npz", own_settings="yes")


@pytest.mark.spec("T-11")
def test_files_of_versions_with_fewer_settings_are_read(tmp_path: Path) -> None:
    saved = built(loss=T.CrossEntropy(0.1))
    saved.save(tmp_path / "m.npz")
    with np.load(tmp_path / "m.npz") as stored:
        arrays = dict(stored)
    notes = json.loads(arrays["training"].tobytes())
    del notes["loss options"], notes["optimizer"]["groups"]
    np.savez(tmp_path / "old.npz", **{**arrays, "training": np.frombuffer(json.dumps(notes).encode(), np.uint8)})
    built(T.Adam(0.01, groups=[T.ParameterGroup("hidden", rate=0.1)])).restore(tmp_path / "old.npz")


@pytest.mark.spec("C-17")
@pytest.mark.parametrize("content", [b"", b"PK\x03\x04", b"no zip", None])
def test_an_invalid_training_state_raises_an_error(tmp_path: Path, content: bytes | None) -> None:
    target = tmp_path / "m.npz"
    if content is None:
        np.savez(target, a=np.ones(2))
    else:
        target.write_bytes(content)
    with pytest.raises(ex.FileError, match=r"m\.npz"):
        built().restore(target)


@pytest.mark.spec("C-17")
def test_a_truncated_file_raises_an_error(tmp_path: Path) -> None:
    module, target = built(), tmp_path / "m.npz"
    module.save(target)
    whole = target.read_bytes()
    before = weights(module)
    for end in range(0, len(whole), 97):
        target.write_bytes(whole[:end])
        with pytest.raises(ex.FileError):
            module.restore(target)
    assert weights(module) == before


@pytest.mark.spec("C-17")
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EACCES])
def test_a_failed_write_keeps_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    module, target = built(), tmp_path / "m.npz"
    module.save(target)
    before = target.read_bytes()

    def refused(path: str, *_: object) -> int:
        raise OSError(number, os.strerror(number), str(path))

    with monkeypatch.context() as patch:
        patch.setattr(atomic_write.os, "open", refused)
        with pytest.raises(ex.FileError, match=os.strerror(number)):
            module.save(target)
    assert target.read_bytes() == before
    assert os.listdir(tmp_path) == ["m.npz"]


@pytest.mark.spec("T-11", "C-17")
def test_an_unwritable_checkpoint_raises_an_error_before_training(tmp_path: Path) -> None:
    module = built()
    for target, given in (("x.txt", "whose name ends with .npz"), ("none/x.npz", "the folder must exist")):
        with pytest.raises(ex.FileError, match=given):
            module.fit(loader(), checkpoint=tmp_path / target)
    assert module.optimizer.iteration == 0
    for wrong, rule in ((None, "path must be a file name"), (".", "whose name ends with .npz")):
        with pytest.raises(ex.ExplorerError, match=rule):
            module.save(wrong)
    for call in (module.save, module.restore):
        with pytest.raises(ex.OperandError, match="must have the methods state"):
            call(tmp_path / "x.npz", 3)
    assert not [*tmp_path.iterdir()]
