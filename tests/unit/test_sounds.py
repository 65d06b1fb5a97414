"""Ten sounds and a cochlea: time decides between the two sounds of a pair, and the cochlea against plain loops."""

import math
import struct
import wave

import numpy as np
import pytest
import torch

from snnkit.data import DamagedFileError, events, sounds


@pytest.fixture(scope="module")
def frames():
    """Counts in windows of 50 ms, float64 [N, 12, 64], and labels: to train with and to test with."""
    parts = []
    for seed, per_class in ((0, 30), (1, 16)):
        recordings, labels = sounds.record(per_class, seed=seed)
        samples = zip(recordings, labels, strict=True)
        x, y = events.cochleagrams(samples, window=50_000, duration=sounds.DURATION)
        parts.append((x.double(), y))
    return parts


def linear_accuracy(train, test):
    """Of a linear classifier: ridge regression on one-hot labels, with all features of equal deviation."""
    (x, y), (x_test, y_test) = train, test
    x, x_test = x.flatten(1), x_test.flatten(1)
    mean, deviation = x.mean(0), x.std(0) + 1e-6
    x, x_test = (x - mean) / deviation, (x_test - mean) / deviation
    targets = torch.nn.functional.one_hot(y).double() - 1 / (int(y.max()) + 1)
    weights = x.T @ torch.linalg.solve(x @ x.T + 100 * torch.eye(len(x), dtype=torch.float64), targets)
    return float(((x_test @ weights).argmax(1) == y_test).double().mean())


def test_counts_do_not_tell_the_sounds_of_a_pair_apart_but_time_does(frames):
    train, test = frames
    by_counts, by_time = [], []
    for pair in range(5):
        parts = [(x[y // 2 == pair], y[y // 2 == pair] % 2) for x, y in (train, test)]
        by_counts.append(linear_accuracy(*((x.sum(1), y) for x, y in parts)))
        by_time.append(linear_accuracy(*parts))
    # 160 guesses have a standard deviation of 0.04.
    assert 0.35 < sum(by_counts) / 5 < 0.65, by_counts
    assert min(by_time) > 0.8 and sum(by_time) / 5 > 0.95, by_time


def test_the_pairs_themselves_are_told_apart_by_counts(frames):
    assert linear_accuracy(*((x.sum(1), y // 2) for x, y in frames)) > 0.95


def test_the_same_seed_gives_the_same_sounds_and_another_seed_others():
    first, again, other = (sounds.record(2, channels=16, seed=seed)[0] for seed in (3, 3, 4))
    assert all(torch.equal(a.t, b.t) and torch.equal(a.x, b.x) for a, b in zip(first, again, strict=True))
    assert not any(len(a) == len(b) and torch.equal(a.t, b.t) for a, b in zip(first, other, strict=True))
    assert len({sounds.waveform("rise", seed=s, take=t).sum().item() for s in range(3) for t in range(3)}) == 9


def test_the_sounds_of_seed_0_are_pinned():
    # Uniform draws are the same on all machines, and sines to the last digit or so, which moves no spike.
    wave = sounds.waveform("ai")
    assert float(wave.double().square().sum()) == pytest.approx(65.2102564, rel=1e-5)
    recording = sounds.record(1)[0][8]
    assert (len(recording), int(recording.t.sum()), int(recording.x.sum())) == (1140, 380613429, 31036)


def test_a_recording_is_what_the_cochlea_hears_of_a_take():
    recordings, labels = sounds.record(2, channels=16, seed=5)
    assert labels.tolist() == [*range(10), *range(10)]
    for i in (3, 18):
        wave = sounds.waveform(sounds.CLASSES[i % 10], seed=5, take=i // 10)
        assert wave.dtype == torch.float32 and wave.shape == (4800,) and wave.abs().max() <= 1
        heard = sounds.cochlea(wave, sounds.RATE, 16)
        assert torch.equal(heard.t, recordings[i].t) and torch.equal(heard.x, recordings[i].x)
        assert heard.duration == sounds.DURATION and heard.shape == (1, 1, 16)


def sine(frequency, rate, seconds=0.5, loudness=1.0):
    return loudness * torch.sin(2 * math.pi * frequency * torch.arange(int(seconds * rate), dtype=torch.float64) / rate)


def test_low_tones_are_heard_by_low_channels_at_every_rate():
    places = []
    for rate in (8000, 11_025, 44_100):
        counts = [sounds.cochlea(sine(f, rate), rate).x.long().bincount(minlength=64) for f in (200, 700, 3000)]
        places.append([int(count.argmax()) for count in counts])
    assert places[0] == sorted(places[0]) and places[0][0] < 8 and places[0][2] > 55
    assert all(abs(a - b) <= 1 for other in places for a, b in zip(places[0], other, strict=True))


def test_rates_are_linear_in_decibels():
    # The channel at 150 Hz, the lowest, of a sine there: 200 spikes per second at 0 dB and none at -50 dB.
    for decibels in (0, -10, -25, -40):
        heard = sounds.cochlea(sine(150, 8000, 1.0, 10 ** (decibels / 20)), 8000)
        assert int((heard.x == 0).sum()) == pytest.approx(200 * (1 + decibels / 50), abs=8)


def test_spikes_have_the_time_of_the_sound():
    tone = torch.cat([torch.zeros(1600), sine(1000, 8000, 0.1).float(), torch.zeros(1600)])
    heard = sounds.cochlea(tone, 8000)
    loudest = heard.t[heard.x == heard.x.long().bincount().argmax()]
    assert 190_000 < int(loudest[0]) < 210_000 and 290_000 < int(loudest[-1]) < 310_000
    assert heard.duration == 500_000


def test_the_cochlea_against_plain_loops():
    rate, channels, window, hop = 8000, 5, 160, 32
    sound = sounds.waveform("ai", seed=2).double().numpy()[1600:3200]
    frames = range(-(-len(sound) // hop))
    hann = np.array([0.5 - 0.5 * math.cos(2 * math.pi * n / window) for n in range(window)])
    spectra = []
    for frame in frames:
        start = frame * hop - (window - hop) // 2
        piece = [sound[start + n] if 0 <= start + n < len(sound) else 0.0 for n in range(window)]
        turns = [np.exp(-2j * np.pi * k * np.arange(window) / window) for k in range(window // 2 + 1)]
        spectra.append([abs(np.dot(piece * hann, turn)) ** 2 * 4 / (window * sum(hann**2)) for turn in turns])
    low, high = (21.4 * math.log10(1 + 0.00437 * f) for f in (150, 3600))
    expected = []
    for c in range(channels):
        centre = (10 ** ((low + (high - low) * c / (channels - 1)) / 21.4) - 1) / 0.00437
        bandwidth = 1.019 * 24.7 * (0.00437 * centre + 1)
        potential = 0.0
        for frame in frames:
            energy = sum(
                power * (1 + ((k * rate / window - centre) / bandwidth) ** 2) ** -4
                for k, power in enumerate(spectra[frame])
            )
            current = 200 * min(max(1 + 10 * math.log10(max(energy, 1e-12)) / 50, 0), 1)  # spikes per second
            later = potential + current * hop / rate
            for nth in range(math.floor(potential) + 1, math.floor(later) + 1):
                share = (nth - potential) / (later - potential)
                expected.append((c, pytest.approx((frame + share) * hop / rate * 1e6, abs=2)))
            potential = later
    heard = sounds.cochlea(torch.from_numpy(sound), rate, channels)
    assert sorted(zip(heard.x.tolist(), heard.t.tolist(), strict=True)) == expected and len(expected) > 40


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ((torch.zeros(800), 8000), ValueError, "loud enough for a spike, but no channel fires"),
        ((torch.full((800,), math.nan), 8000), ValueError, r"waveform must be in \[-1, 1\] .* but it goes up to nan"),
        ((torch.full((800,), 2.0), 8000), ValueError, r"waveform must be in \[-1, 1\] .* but it goes up to 2"),
        ((torch.zeros(2, 800), 8000), ValueError, r"waveform must be floating-point \[n\] .* torch.float32 \[2, 800\]"),
        ((torch.zeros(0), 8000), ValueError, r"waveform must be floating-point \[n\] of 1 to 960000 samples"),
        ((torch.zeros(800, dtype=torch.int16), 8000), ValueError, "waveform must be floating-point .* torch.int16"),
        ((torch.zeros(800), 4000), ValueError, "rate must be at least 8000, but it is 4000"),
        ((torch.zeros(800), 8000, 1), ValueError, "channels must be at least 2, but it is 1"),
        (([0.0], 8000), TypeError, "waveform must be a torch.Tensor"),
    ],
)
def test_bad_sounds(arguments, error, words):
    with pytest.raises(error, match=words):
        sounds.cochlea(*arguments)


def test_bad_requests():
    for call, words in (
        (lambda: sounds.waveform("moo"), "name must be one of 'rise', 'fall', .* but it is 'moo'"),
        (lambda: sounds.waveform("rise", seed=-1), "seed must be at least 0, but it is -1"),
        (lambda: sounds.record(0), "per_class must be at least 1, but it is 0"),
        (lambda: sounds.record(2**50), "per_class must be at most .* which is what memory holds"),
    ):
        with pytest.raises(ValueError, match=words):
            call()


def write(path, width, values, channels=1, rate=11_025):
    """Integers of so many bytes; those of a single byte count from 128."""
    with wave.open(str(path), "wb") as file:
        file.setparams((channels, width, rate, 0, "NONE", ""))
        file.writeframes(b"".join((v + 128 * (width == 1)).to_bytes(width, "little", signed=width > 1) for v in values))
    return path


@pytest.mark.parametrize("width", [1, 2, 3, 4])
def test_wav_files_of_every_width(tmp_path, width):
    whole = 1 << 8 * width - 1
    values = [0, whole // 2, -whole // 4, -whole]
    wave, rate = sounds.read_wav(write(tmp_path / "a.wav", width, values))
    assert wave.tolist() == [0, 0.5, -0.25, -1] and wave.dtype == torch.float32 and rate == 11_025
    stereo, _ = sounds.read_wav(write(tmp_path / "b.wav", width, values, channels=2))
    assert stereo.tolist() == [0.25, -0.625]


def test_a_wav_file_of_a_sound_makes_its_spikes(tmp_path):
    wave = sounds.waveform("hiss-tone")
    path = write(tmp_path / "a.wav", 2, (wave * 32767).round().int().tolist(), rate=sounds.RATE)
    heard, first = sounds.cochlea(*sounds.read_wav(path)), sounds.record(1)[0][6]
    assert abs(len(heard) - len(first)) < 10


@pytest.mark.parametrize("rate", [8000, 44_100])
def test_a_written_sound_is_read_again(tmp_path, rate):
    wave = torch.tensor([0.0, 0.5, -0.25, 1.0, -1.0])
    sounds.write_wav(tmp_path / "new" / "mine.wav", wave, rate)
    again, its_rate = sounds.read_wav(tmp_path / "new" / "mine.wav")
    assert its_rate == rate and torch.allclose(again, wave, atol=1 / 32767)
    with pytest.raises(ValueError, match=r"waveform must be in \[-1, 1\] .* but it goes up to 3"):
        sounds.write_wav(tmp_path / "bad.wav", 3 * wave, rate)
    assert not (tmp_path / "bad.wav").exists()


def test_damaged_wav_files(tmp_path):
    good = write(tmp_path / "a.wav", 2, range(100)).read_bytes()
    floats = good[:20] + struct.pack("<H", 3) + good[22:]
    for content, words in (
        (b"", "is no whole WAV file of integers: it ends early"),
        (b"ID3 not a WAV file, but longer", "file of integers: file does not start with RIFF id; .* `ffmpeg -i"),
        (floats, "is no whole WAV file of integers: unknown"),
        (good[:43], "is no whole WAV file of integers: fmt chunk"),
        (write(tmp_path / "b.wav", 2, []).read_bytes(), "it holds no sound"),
        (good[:-1], "is no whole WAV file of integers: it ends early"),
        (bytes(1 << 27), "too large: 134 MB"),
    ):
        path = tmp_path / "bad.wav"
        path.write_bytes(content)
        with pytest.raises(DamagedFileError, match=words):
            sounds.read_wav(path)
    with pytest.raises(FileNotFoundError):
        sounds.read_wav(tmp_path / "none.wav")
