"""Ten sounds by formula, and a simple cochlea that turns them, or your own sound, into spikes; no network is needed.

```python
from snnkit.data import events, sounds

recordings, labels = sounds.record(100, seed=0)         # 100 of each sound; another seed: others, to test with
recordings[0]                                           # Events(736 in 0.6 s, 1 × 64 pixels): 64 channels
x, y = events.cochleagrams(zip(recordings, labels), window=10_000, duration=600_000)    # uint8 [1000, 60, 64]
wave = sounds.waveform("rise", seed=0)                  # float32 [4800], 8 kHz: IPython.display.Audio(wave, rate=8000)
mine = sounds.cochlea(*sounds.read_wav("mine.wav"))     # a recording of your own sound; write_wav makes such a file
```

The sounds come in pairs, in which one is the other played backwards: a rising tone and a falling one, noise before a
tone and after it. Both have the same spectrum, and make as many spikes in each channel. So who counts spikes can tell
the pairs apart, but not the two sounds of a pair; for that, a network needs a memory for time.
"""

from __future__ import annotations

import io
import os
import wave
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from snnkit import checks
from snnkit.data.events.recordings import Events
from snnkit.data.idx import DamagedFileError
from snnkit.files import read_small, replacing

RATE = 8000  #: samples per second of ``waveform``
DURATION = 600_000  #: microseconds of a sound

#: The sounds; each label with an odd number is the one before it, played backwards.
CLASSES = (
    "rise", "fall", "low-high", "high-low", "swell", "fade", "hiss-tone", "tone-hiss", "ai", "ia",
)  # fmt: skip

_LOWEST, _HIGHEST = 150.0, 3600.0  # Hz, of the channels of the cochlea
_WINDOW, _HOP = 0.020, 0.004  # seconds: length and distance of short-time spectra
_FASTEST = 200.0  # spikes per second of a channel at full loudness
_QUIETEST = -50.0  # dB below that of a sine of amplitude 1, at which a channel falls silent
_UNIT = 1 << 20  # of the charge of a channel: one spike
_LONGEST = 120  # seconds of a sound
_LARGEST = 1 << 26  # bytes of a WAV file: two minutes of stereo at 48 kHz are 23 MB
_A, _I = (730.0, 1090.0), (270.0, 2290.0)  # Hz: formants of the vowels, Peterson and Barney 1952


@checks.arguments
def waveform(name: str, *, seed: int = 0, take: int = 0) -> Tensor:
    """One of the sounds of ``CLASSES``, float32 [4800] in [-1, 1], 8000 samples per second.

    Pitch, speed, loudness, onset and background noise are drawn again for each seed and take, as if by many speakers.
    """
    kind = CLASSES.index(checks.choice("name", name, CLASSES))
    return torch.from_numpy(_waveform(kind, seed, take).astype(np.float32))


@checks.arguments
def record(per_class: int = 100, *, channels: int = 64, seed: int = 0) -> tuple[list[Events], Tensor]:
    """The cochlea's recordings of ``per_class`` takes of each sound, and their labels int64 [10 · per_class].

    Labels are 0, 1, …, 9, 0, 1, … Take i of a sound is ``cochlea(waveform(name, seed=seed, take=i), RATE, channels)``.
    Train on one seed and test on another.
    """
    per_class, channels = checks.integer("per_class", per_class, at_least=1), _check_channels(channels)
    checks.fits("per_class", per_class, len(CLASSES) * 100 * channels * 13)  # at 100 events a channel, 13 bytes each
    bank = _bank(RATE, channels)
    recordings = []
    for take in range(per_class):
        for kind in range(len(CLASSES)):
            sound = _waveform(kind, seed, take).astype(np.float32).astype(np.float64)
            recordings.append(_spikes(sound, RATE, bank))
    return recordings, torch.arange(len(CLASSES)).repeat(per_class)


@checks.arguments
def cochlea(waveform: Tensor, rate: int, channels: int = 64) -> Events:
    """The spikes of a sound: a filter, its compressed energy and an integrate-and-fire neuron for each channel.

    Channels lie between 150 and 3600 Hz at equal distances on the scale of equivalent rectangular bandwidths (Glasberg
    and Moore 1990, doi:10.1016/0378-5955(90)90170-T), with the power responses of gammatone filters of order 4
    (Patterson et al. 1992). They weight short-time spectra, 20 ms long and 4 ms apart. The energy in dB drives the
    neuron: none at -50 dB, 200 spikes per second at 0 dB, which is a sine of amplitude 1. Nothing is drawn at random.

    Args:
        waveform: float [n], in [-1, 1]; up to two minutes.
        rate: samples per second, from 8000 to 192000. The channels are the same for every rate.
        channels: from 2 to 1024, low to high.

    Returns:
        A recording of one row, without OFF events. Raises ValueError where the sound is too quiet for a single spike.
    """
    rate, channels = checks.integer("rate", rate, at_least=RATE, at_most=192_000), _check_channels(channels)
    return _spikes(_check_sound(waveform, rate), rate, _bank(rate, channels))


@checks.arguments
def read_wav(path: str | os.PathLike[str]) -> tuple[Tensor, int]:
    """The sound of a WAV file without compression: float32 [n] in [-1, 1], the mean of its channels, and its rate.

    Raises:
        FileNotFoundError: there is no such file.
        DamagedFileError: it is no WAV file of integers of 8 to 32 bits, is damaged, or is larger than 67 MB.
    """
    try:
        with wave.open(io.BytesIO(read_small(Path(path), _LARGEST))) as file:
            rate, channels, width = file.getframerate(), file.getnchannels(), file.getsampwidth()
            n, raw = file.getnframes(), file.readframes(file.getnframes())
        if len(raw) != n * channels * width:
            raise EOFError
        if not n:
            raise ValueError("it holds no sound")
    except (ValueError, EOFError, wave.Error) as error:
        raise DamagedFileError(
            f"{Path(path)} is no whole WAV file of integers: {str(error) or 'it ends early'}; other recordings become "
            "one by `ffmpeg -i RECORDING -c:a pcm_s16le mine.wav`"
        ) from None
    samples = np.frombuffer(raw, dtype=np.uint8).reshape(n, channels, width)
    # The upper bytes of int32, smallest byte first; a single byte counts from 128.
    wide = np.zeros((n, channels, 4), dtype=np.uint8)
    wide[..., 4 - width :] = samples ^ 128 if width == 1 else samples
    mono = wide.view("<i4")[..., 0].mean(axis=1) / 2**31
    return torch.from_numpy(mono.astype(np.float32)), rate


@checks.arguments
def write_wav(path: str | os.PathLike[str], waveform: Tensor, rate: int) -> None:
    """Write a sound as a WAV file of 16 bits, which replaces an older one in one step.

    Args:
        path: the file.
        waveform: float [n], in [-1, 1]; up to two minutes.
        rate: samples per second, from 1 to 192000.
    """
    rate = checks.integer("rate", rate, at_least=1, at_most=192_000)
    samples = np.rint(32767 * _check_sound(waveform, rate)).astype("<i2")
    content = io.BytesIO()
    with wave.open(content, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes(samples.tobytes())
    with replacing(Path(path)) as file:
        file.write(content.getvalue())


def _check_sound(waveform: Tensor, rate: int) -> np.ndarray:
    """The waveform as float64 [n]; an error if it is no sound."""
    checks.values("waveform", waveform)
    if waveform.ndim != 1 or not waveform.is_floating_point() or not 0 < len(waveform) <= _LONGEST * rate:
        raise ValueError(
            f"waveform must be floating-point [n] of 1 to {_LONGEST * rate} samples, {_LONGEST} s, but it is "
            f"{waveform.dtype} {list(waveform.shape)}"
        )
    loudest = float(waveform.abs().max())
    if not loudest <= 1:  # NaN is neither
        raise ValueError(f"waveform must be in [-1, 1] (divide by its largest size), but it goes up to {loudest:g}")
    return waveform.detach().cpu().double().numpy()


def _check_channels(channels: int) -> int:
    return checks.integer("channels", channels, at_least=2, at_most=1024)


def _waveform(kind: int, seed: int, take: int) -> np.ndarray:
    """float64 [4800]; from uniform draws alone, which are the same on every machine."""
    seed, take = (checks.integer(name, n, at_least=0) for name, n in (("seed", seed), ("take", take)))
    draw = np.random.default_rng((seed, take, kind))
    pitch, speed, loudness, hum, onset = draw.random(5)
    seconds = 0.36 * 1.25 ** (2 * speed - 1)
    n, whole = int(seconds * RATE), DURATION * RATE // 1_000_000
    sound = _SOUNDS[kind // 2](np.arange(n) / n, seconds, 1.2 ** (2 * pitch - 1), draw)
    if kind % 2:
        sound = sound[::-1]
    result = 10 ** ((hum - 6) / 2) * (2 * draw.random(whole) - 1)  # from 50 to 60 dB below full loudness
    start = int(onset * (whole - n))
    result[start : start + n] += 0.9 * 10 ** (-loudness / 2) * sound  # down to 10 dB below
    return result


def _part(u: np.ndarray, seconds: float, start: float, end: float) -> np.ndarray:
    """Loudness of a part of a sound, 1 from ``start`` to ``end`` (shares of it), fading in and out within 10 ms."""
    return np.sin(np.clip(np.minimum(u - start, end - u) * seconds / 0.010, 0, 1) * np.pi / 2) ** 2


def _tone(u: np.ndarray, seconds: float, frequency: np.ndarray | float) -> np.ndarray:
    """A sine of a frequency in Hz that may change."""
    return np.sin(2 * np.pi * seconds * np.cumsum(np.broadcast_to(frequency, u.shape)) / len(u))


def _rise(u: np.ndarray, seconds: float, pitch: float, draw: np.random.Generator) -> np.ndarray:
    return _tone(u, seconds, pitch * 400 * 6**u) * _part(u, seconds, 0, 1)


def _low_high(u: np.ndarray, seconds: float, pitch: float, draw: np.random.Generator) -> np.ndarray:
    low, high = (_tone(u, seconds, pitch * frequency) for frequency in (500, 1300))
    return low * _part(u, seconds, 0, 0.47) + high * _part(u, seconds, 0.53, 1)


def _swell(u: np.ndarray, seconds: float, pitch: float, draw: np.random.Generator) -> np.ndarray:
    """A buzz that grows by 40 dB."""
    buzz = sum(_tone(u, seconds, pitch * 350 * harmonic) / harmonic for harmonic in range(1, 9))
    return 0.45 * buzz * 10 ** (2 * u - 2) * _part(u, seconds, 0, 1)


def _hiss_tone(u: np.ndarray, seconds: float, pitch: float, draw: np.random.Generator) -> np.ndarray:
    hiss = 2 * draw.random(len(u)) - 1
    return hiss * _part(u, seconds, 0, 0.47) + _tone(u, seconds, pitch * 700) * _part(u, seconds, 0.53, 1)


def _ai(u: np.ndarray, seconds: float, pitch: float, draw: np.random.Generator) -> np.ndarray:
    """A voice that glides from one vowel to the other: harmonics, louder the nearer they are to a formant."""
    fundamental = 130 * pitch
    glide = np.clip((u - 0.25) / 0.5, 0, 1)
    phase = 2 * np.pi * fundamental * seconds * u
    voice = np.zeros_like(u)
    for harmonic in range(1, int(_HIGHEST / fundamental) + 1):
        away = (harmonic * fundamental - a - (i - a) * glide for a, i in zip(_A, _I, strict=True))
        voice += sum(1 / (1 + (hertz / 90) ** 2) for hertz in away) * np.sin(harmonic * phase)
    return voice / np.abs(voice).max() * _part(u, seconds, 0, 1)


_SOUNDS = (_rise, _low_high, _swell, _hiss_tone, _ai)


def _bank(rate: int, channels: int) -> np.ndarray:
    """Power responses of the filters at the frequencies of a spectrum, float64 [frequencies, channels]."""
    # Equal steps of 21.4 log10(1 + 0.00437 f), and the bandwidths there, as Glasberg and Moore have them.
    lowest, highest = np.log10(1 + 0.00437 * np.array([_LOWEST, _HIGHEST]))
    centre = (10 ** np.linspace(lowest, highest, channels) - 1) / 0.00437
    width = 1.019 * 24.7 * (1 + 0.00437 * centre)
    frequency = np.fft.rfftfreq(round(_WINDOW * rate), 1 / rate)
    return (1 + ((frequency[:, None] - centre) / width) ** 2) ** -4


def _spikes(sound: np.ndarray, rate: int, bank: np.ndarray) -> Events:
    window, hop = round(_WINDOW * rate), round(_HOP * rate)
    frames = -(-len(sound) // hop)
    before = (window - hop) // 2
    padded = np.zeros(frames * hop + window)
    padded[before : before + len(sound)] = sound
    pieces = np.lib.stride_tricks.sliding_window_view(padded, window)[: frames * hop : hop]
    shape = np.hanning(window + 1)[:-1]
    # So that a sine of amplitude 1 has a power of 1 altogether, however it is spread over neighbouring frequencies.
    power = np.abs(np.fft.rfft(pieces * shape)) ** 2 * (4 / (window * (shape**2).sum()))
    filtered = np.einsum("tf,fc->tc", power, bank)  # so small a product is slower on the threads of a matrix library
    level = 10 * np.log10(np.maximum(filtered, 1e-12))  # dB [frames, channels]
    drive = _FASTEST * hop / rate * np.clip(1 - level / _QUIETEST, 0, 1)
    # In whole units, so that sums are exact and an error of the last digit of a sine moves no spike.
    charge = np.rint(drive * _UNIT).astype(np.int64)
    after = charge.cumsum(axis=0)
    fired_after, fired = after // _UNIT, (after - charge) // _UNIT
    many = (fired_after - fired).ravel()
    cell = np.repeat(np.arange(many.size), many)
    nth = np.arange(len(cell)) - np.repeat(many.cumsum() - many, many) + 1
    if not len(cell):
        raise ValueError("waveform must be loud enough for a spike, but no channel fires")
    # The charge reaches the threshold at this share of the frame.
    share = ((fired.ravel()[cell] + nth) * _UNIT - (after - charge).ravel()[cell]) / charge.ravel()[cell]
    frame, channel = np.divmod(cell, bank.shape[1])
    duration = len(sound) * 1_000_000 // rate
    t = np.minimum(((frame + share) * (hop * 1_000_000 / rate)).astype(np.int64), max(duration - 1, 0))
    order = np.argsort(t, kind="stable")
    t, channel = torch.from_numpy(t[order]), torch.from_numpy(channel[order].astype(np.int16))
    row = torch.zeros(len(t), dtype=torch.int16)
    return Events(t, channel, row, torch.ones(len(t), dtype=torch.bool), (1, bank.shape[1]), duration, 1)
