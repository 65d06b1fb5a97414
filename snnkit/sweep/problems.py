"""The two ways in which a sweep is refused; both say what to do."""


class ManifestError(ValueError):
    """What the manifest asks for can't be done: names the key, what it was and what it may be. Nothing has started."""


class SweepError(ValueError):
    """The folder of results can't be used for this sweep: in use, of another sweep, or damaged. Nothing was written."""
