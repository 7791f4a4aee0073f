"""The file store: a folder that holds a key, the bound bytes of jobs, and a folder for each job."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress

import msgspec
from msgspec import Struct
from msgspec.structs import replace as with_fields

from cruft_sched.core import manifest as manifests
from cruft_sched.core.ids import check_job_id
from cruft_sched.core.manifest import Manifest
from cruft_sched.core.sealing import KEY_BYTES, StoreKey, digest
from cruft_sched.errors import (
    CruftError,
    DataError,
    JobExistsError,
    SealError,
    StorageError,
    UnknownJobError,
    UsageError,
    remedy,
)
from cruft_sched.stores import atomic, disk, locks

MAX_RECORD_BYTES = 64 << 20
MAX_OBJECT_BYTES = 64 << 20
MAX_NOTE_BYTES = 64 << 10
STORE_LOCK_WAIT_S = 30.0

_ESCAPES_COLON = os.name == "nt"


class CancelRequest(Struct, frozen=True, kw_only=True):
    """What `cancel` leaves for whoever holds the job. `uid` is the job's."""

    uid: str
    reason: str | None = None


class FileStore:
    """A store that exists. It holds nothing in memory but the key; every method reads the disk."""

    def __init__(self, root: str, key_file: str | None = None) -> None:
        """Open the store at `root`; `key_file` is where its key lies, if not in it. Raises DataError."""
        self.root = _checked_root(root)
        self._key_file = os.path.abspath(key_file) if key_file else os.path.join(self.root, "key")
        self._key: StoreKey | None = None
        with _disk("open the store"):
            try:
                os.stat(self._jobs)
            except (FileNotFoundError, NotADirectoryError):
                raise DataError(
                    f"there is no store at {self.root}", "give --store the folder that `start` printed"
                ) from None

    @classmethod
    def create(cls, root: str, key_file: str | None = None) -> FileStore:
        """Open the store at `root`, made first where there is none."""
        root = _checked_root(root)
        with _disk("make the store"):
            atomic.make_folder(root)
            with locks.hold(os.path.join(root, "lock"), f"store {root} is being made", STORE_LOCK_WAIT_S):
                atomic.sweep(root)
                _make_key(root, os.path.abspath(key_file) if key_file else os.path.join(root, "key"))
                atomic.make_folder(os.path.join(root, "objects"))
                atomic.make_folder(os.path.join(root, "jobs"))
        return cls(root, key_file)

    @property
    def key_path(self) -> str:
        """Where the store's key lies."""
        return self._key_file

    @property
    def _jobs(self) -> str:
        return os.path.join(self.root, "jobs")

    def folder(self, job_id: str) -> str:
        """The folder of a job. Raises UsageError where the id is not well-formed."""
        name = check_job_id(job_id)
        return os.path.join(self._jobs, name.replace(":", "%3A") if _ESCAPES_COLON else name)

    def manifest_path(self, job_id: str) -> str:
        """The file that is the job."""
        return os.path.join(self.folder(job_id), "manifest.json")

    def job_ids(self) -> list[str]:
        """The ids of all jobs, sorted. A folder whose first manifest was never written is no job."""
        with _disk("list the jobs"), os.scandir(self._jobs) as entries:
            names = [entry.name for entry in entries if _may_hold_a_job(entry.path)]
        return sorted(name.replace("%3A", ":") if _ESCAPES_COLON else name for name in names)

    def load(self, job_id: str) -> Manifest:
        """The job as last committed. No lock is needed: a commit is one rename.

        Raises UnknownJobError; SealError or DataError where the manifest is not to be trusted.
        """
        path = self.manifest_path(job_id)
        try:
            with _disk(f"read the manifest of job {job_id}"):
                data = atomic.read_file(path, MAX_RECORD_BYTES)
        except StorageError as error:
            cause = error.__cause__
            if isinstance(cause, FileNotFoundError | NotADirectoryError):
                raise self.unknown(job_id) from None
            if isinstance(cause, OSError) and cause.errno == errno.ELOOP:
                raise DataError(f"the manifest of job {job_id} is a link", "put the file itself there") from None
            raise
        record = self.store_key().unseal(data, f"the manifest of job {job_id}")
        return manifests.decode(record, job_id)

    def create_job(self, manifest: Manifest) -> None:
        """Make a job, whole or not at all. Raises JobExistsError."""
        job_id = manifest.job_id
        folder, path = self.folder(job_id), self.manifest_path(job_id)
        exists = JobExistsError(
            f"job already exists: {job_id}", "give another --job-id, or go on with it: `tick`, `status`"
        )
        with _disk(f"make job {job_id}"):
            atomic.make_folder(folder)
            with locks.hold(os.path.join(folder, "lock"), f"job {job_id} is being made", STORE_LOCK_WAIT_S):
                if os.path.lexists(path):
                    raise exists
                atomic.sweep(folder)
                atomic.create(path, self.store_key().seal(manifests.encode(manifest)))
                disk.fsync_folder(self._jobs)  # the folder may be a dead start's, whose own fsync never came

    @contextmanager
    def hold(self, job_id: str, wait_s: float = 0.0) -> Iterator[HeldJob]:
        """The job under its lock, for the length of a `with` block. Raises BusyError, UnknownJobError."""
        folder = self.folder(job_id)
        if not os.path.lexists(self.manifest_path(job_id)):
            raise self.unknown(job_id)
        with ExitStack() as stack:
            with _disk(f"lock job {job_id}"):
                path = os.path.join(folder, "lock")
                if not os.path.isdir(folder):
                    raise self.unknown(job_id)  # deleted since the look
                in_place = stack.enter_context(locks.hold(path, f"job {job_id} is being advanced", wait_s))
            yield HeldJob(self, job_id, in_place)

    def put_object(self, data: bytes) -> str:
        """Keep bytes by their hash, which is returned. Bytes that are there already are not written again."""
        name = digest(data)
        path = self._object_path(name)
        with _disk("keep the bound bytes"):
            with suppress(OSError, ValueError):  # absent or broken: write it
                if atomic.read_file(path, MAX_OBJECT_BYTES) == data:
                    return name
            self._replace_shared(path, data)
        return name

    def get_object(self, name: str) -> bytes:
        """The bytes kept under a hash. Raises DataError where they are missing, or no longer those."""
        data = b""
        with _disk(f"read the store's copy of {name}"), suppress(FileNotFoundError, ValueError):
            data = atomic.read_file(self._object_path(name), MAX_OBJECT_BYTES)
        if digest(data) != name:
            raise DataError(f"the store's copy of {name} is missing or broken", "restore objects/ from a backup")
        return data

    def store_key(self) -> StoreKey:
        """The key that seals this store's records, read once. Raises SealError."""
        if self._key is None:
            self._key = StoreKey(_read_key(self._key_file))
        return self._key

    def _object_path(self, name: str) -> str:
        return os.path.join(self.root, "objects", name.removeprefix("blake3:"))

    def unknown(self, job_id: str) -> UnknownJobError:
        """What to raise where there is no such job, or none any more."""
        return UnknownJobError(
            f"no job {job_id} in store {self.root}", f"see `cruft agent schedule list --store {self.root}`"
        )

    def request_cancel(self, job_id: str, request: CancelRequest) -> None:
        """Ask whoever holds the job to cancel it. Raises StorageError."""
        with _disk(f"ask for the cancel of job {job_id}"):
            self._replace_shared(self._beside(job_id, "cancel"), msgspec.json.encode(request))

    def cancel_request(self, job_id: str, uid: str | None = None) -> CancelRequest | None:
        """The request that waits for the holder of the job, unless it is another job's of the same name. Raises
        StorageError: a request that cannot be read is not passed over."""
        path = self._beside(job_id, "cancel")
        if not os.path.lexists(path):
            return None
        try:
            with _disk(f"read the cancel of job {job_id}"):
                request = msgspec.json.decode(atomic.read_file(path, MAX_NOTE_BYTES), type=CancelRequest)
        except DataError:
            return None  # not a request of ours
        except StorageError as error:
            if isinstance(error.__cause__, FileNotFoundError):
                return None  # applied since the look
            raise
        return request if uid is None or request.uid == uid else None

    def note_blocked(self, job_id: str, fault: str) -> bool:
        """Remember a lasting fault of a job. False where just this one was remembered before."""
        path = self._beside(job_id, "blocked")
        data = fault.encode("utf-8", "replace")[:MAX_NOTE_BYTES]
        with suppress(OSError, ValueError):
            if atomic.read_file(path, MAX_NOTE_BYTES) == data:
                return False
        with suppress(OSError, CruftError):  # it is only a note: without it the fault is said again
            self._replace_shared(path, data)
        return True

    def clear_blocked(self, job_id: str) -> None:
        """Forget the fault of a job that goes on."""
        path = self._beside(job_id, "blocked")
        if os.path.lexists(path):
            with suppress(OSError):
                disk.unlink(path)

    def _replace_shared(self, path: str, data: bytes) -> None:
        """Write a file that is not the job's holder's alone. Its temporary lies in the root, which is swept under the
        store's lock; so is this."""
        with locks.hold(os.path.join(self.root, "lock"), f"store {self.root} is busy", STORE_LOCK_WAIT_S):
            atomic.sweep(self.root)
            atomic.replace(path, data, aside=self.root)

    def sweep_root(self) -> None:
        """Remove what an interrupted write left in the root, unless somebody is writing there."""
        with suppress(OSError, CruftError):  # it is harmless, and the next command tries again
            if atomic.leavings(self.root):
                with locks.hold(os.path.join(self.root, "lock"), "busy"):
                    atomic.sweep(self.root)

    def _beside(self, job_id: str, name: str) -> str:
        return os.path.join(self.folder(job_id), name)


class HeldJob:
    """A job whose lock this process holds. Only such a job can be written."""

    def __init__(self, store: FileStore, job_id: str, in_place: Callable[[], bool]) -> None:
        self.store = store
        self._job_id = job_id
        self._in_place = in_place

    def load(self) -> Manifest:
        """The job as last committed, after what an interrupted write left was swept."""
        manifest = self.store.load(self._job_id)
        with _disk(f"sweep job {self._job_id}"):
            atomic.sweep(self.store.folder(self._job_id))
        self.store.sweep_root()
        return manifest

    def commit(self, manifest: Manifest) -> Manifest:
        """Write the job back, durably, and return it as written.

        Raises StorageError: the old one stands, or the new one, if only the last fsync failed. Raises UnknownJobError
        where the job was deleted meanwhile, and maybe started again: the new one is not ours to write.
        """
        if not self._in_place():
            raise self.store.unknown(self._job_id)
        written = with_fields(manifest, revision=manifest.revision + 1)
        data = self.store.store_key().seal(manifests.encode(written))
        with _disk(f"write the manifest of job {self._job_id}"):
            try:
                atomic.replace(self.store.manifest_path(self._job_id), data)
            except FileNotFoundError:
                raise self.store.unknown(self._job_id) from None
        self.store.clear_blocked(self._job_id)
        return written

    def cancel_request(self, manifest: Manifest) -> CancelRequest | None:
        """The request to cancel this very job, if there is one."""
        return self.store.cancel_request(self._job_id, manifest.uid)

    def cancel_seen(self, manifest: Manifest) -> bool:
        """Whether there is such a request, as far as can be told: who commits looks again, and is told of a fault."""
        try:
            return self.cancel_request(manifest) is not None
        except StorageError:
            return False

    def drop_cancel_request(self) -> None:
        """Remove a request that was applied, or came too late."""
        with suppress(OSError):  # what is left of it has the job's uid, and the job is over
            disk.unlink(os.path.join(self.store.folder(self._job_id), "cancel"))


def _checked_root(root: str) -> str:
    """The absolute path of a store. Raises UsageError where it could not be printed."""
    if not root:
        raise UsageError("the store's folder has no name", "give --store a folder")
    path = os.path.abspath(root)
    try:
        path.encode()
    except UnicodeEncodeError:
        raise UsageError(f"the store's path {path!a} is not UTF-8", "give it another name") from None
    return path


def _may_hold_a_job(folder: str) -> bool:
    """Whether a folder has a manifest. One that cannot be looked into counts: its fault is to be said."""
    try:
        os.lstat(os.path.join(folder, "manifest.json"))
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
    return True


def _make_key(root: str, key_file: str) -> None:
    """Make the store's key, unless it is there. Never beside manifests that another key has sealed."""
    if os.path.lexists(key_file):
        return
    jobs = os.path.join(root, "jobs")
    if os.path.isdir(jobs) and os.listdir(jobs):
        raise _no_key(key_file)
    atomic.make_folder(os.path.dirname(key_file))
    with suppress(FileExistsError):  # another store's first start made it since the look, whole: the first one wins
        atomic.create(key_file, os.urandom(KEY_BYTES))


def _read_key(key_file: str) -> bytes:
    with _disk("read the store's key"):
        try:
            found = os.stat(key_file)
            key = atomic.read_file(os.path.realpath(key_file), KEY_BYTES + 1)
        except FileNotFoundError:
            raise _no_key(key_file) from None
    if os.name == "posix" and found.st_mode & 0o077:
        raise SealError(f"the store's key {key_file} can be read by others", f"run `chmod 600 {key_file}`")
    return key


def _no_key(key_file: str) -> SealError:
    return SealError(
        f"the store's key {key_file} is missing, so no manifest can be verified",
        "put the key back (CRUFT_KEY_FILE names another place), or start the jobs anew in a new store",
    )


@contextmanager
def _disk(doing: str) -> Iterator[None]:
    """Turn what the system says into one sentence."""
    try:
        yield
    except CruftError:
        raise
    except OSError as error:
        where = f" ({error.filename})" if error.filename else ""
        raise StorageError(f"cannot {doing}: {error.strerror or error}{where}", _todo(error)) from error
    except ValueError as error:
        raise DataError(f"cannot {doing}: {error}", "put back what was there") from error


def _todo(error: OSError) -> str:
    return f"nothing was half-written: {remedy(error)}, and run the same command again"
