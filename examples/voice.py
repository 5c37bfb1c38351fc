"""Finds who speaks when in a wav file, by silero-vad: a TorchScript archive that its package ships.

    pip install silero-vad          # with --no-deps: the archive alone is needed
    python examples/voice.py --wav recording.wav

Without --wav it makes its own: two speakers whose vowels are made of formants, with pauses between.
"""

import argparse
import importlib.util
import wave
from pathlib import Path

import show
import torch

RATE, PIECE = 16000, 512
# Of each vowel three resonances: Hz, width, strength.
VOWELS = {
    "a": ((730, 90, 1.0), (1090, 110, 0.5), (2440, 170, 0.25)),
    "e": ((530, 70, 1.0), (1840, 100, 0.4), (2480, 120, 0.25)),
    "i": ((270, 60, 1.0), (2290, 100, 0.35), (3010, 120, 0.25)),
    "o": ((570, 70, 1.0), (840, 90, 0.6), (2410, 150, 0.1)),
    "u": ((300, 60, 1.0), (870, 90, 0.4), (2240, 140, 0.1)),
}


def sing(vowel, seconds, pitch):
    """The harmonics of a voice, each as loud as the vowel's resonances make it."""
    time = torch.arange(int(seconds * RATE)) / RATE
    falling = pitch * (1 + 0.03 * torch.sin(2 * torch.pi * 5 * time)) * (1 - 0.15 * time / seconds)
    phase = 2 * torch.pi * torch.cumsum(falling, 0) / RATE
    sound = torch.zeros_like(time)
    for k in range(1, 40):
        loud = sum(strength / (1 + ((k * pitch - hz) / width) ** 2) for hz, width, strength in VOWELS[vowel])
        sound += loud / k**0.5 * torch.sin(k * phase)
    return sound * torch.minimum(time / 0.03, (seconds - time) / 0.06).clamp(0, 1)


def speak(word, pitch):
    """Vowels with a rush of air before each."""
    parts = []
    for vowel in word:
        air = torch.randn(RATE // 20 + 1)
        parts += [0.03 * (air[1:] - air[:-1]), sing(vowel, 0.17, pitch), torch.zeros(RATE // 50)]
    return torch.cat(parts)


def make_sound():
    pause = torch.zeros(RATE)
    sound = torch.cat([pause, speak("aieoua", 120), pause, speak("oaiuea", 190), pause[: RATE // 2]])
    return 0.3 * sound / sound.abs().max() + 0.002 * torch.randn(sound.shape)


def read_wav(path):
    """Numbers from -1 to 1 of a wav file with one channel of 16 bits at 16 kHz."""
    with wave.open(str(path)) as file:
        if (file.getframerate(), file.getnchannels(), file.getsampwidth()) != (RATE, 1, 2):
            raise SystemExit(f"{path}: one channel of 16 bits at {RATE} Hz is needed")
        data = bytearray(file.readframes(file.getnframes()))
    return torch.frombuffer(data, dtype=torch.int16).float() / 32768


def write_wav(path, sound):
    path.parent.mkdir(parents=True, exist_ok=True)
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(RATE)
        file.writeframes((sound.clamp(-1, 1) * 32767).to(torch.int16).numpy().tobytes())


def load_model():
    found = importlib.util.find_spec("silero_vad")
    if found is None:
        raise SystemExit("voice.py needs the package silero-vad: pip install --no-deps silero-vad")
    return torch.jit.load(str(Path(found.origin).parent / "data" / "silero_vad.jit")).eval()


def find_speech(chances, quiet=8):
    """Stretches of pieces that are speech, with pauses of less than `quiet` pieces in them."""
    stretches = []
    for at, chance in enumerate(chances):
        if chance > 0.5 and stretches and at - stretches[-1][1] <= quiet:
            stretches[-1][1] = at + 1
        elif chance > 0.5:
            stretches.append([at, at + 1])
    return [(begin * PIECE / RATE, end * PIECE / RATE) for begin, end in stretches]


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--wav", type=Path, help="a recording; one is made if none is given")
    p.add_argument("--out", type=Path, default=Path("build/voice"), help="folder of the drawing")
    args = p.parse_args()
    torch.manual_seed(0)
    if args.wav is None:
        args.wav = args.out / "voice.wav"
        write_wav(args.wav, make_sound())
    sound, model = read_wav(args.wav), load_model()
    pieces = sound[: len(sound) // PIECE * PIECE].split(PIECE)
    with torch.no_grad():
        chances = [model(piece, RATE).item() for piece in pieces]
    for begin, end in find_speech(chances):
        print(f"speech from {begin:.2f} s to {end:.2f} s")
    print(
        f"the whole: {len(sound) / RATE:.2f} s, {sum(chance > 0.5 for chance in chances)} of {len(pieces)} pieces speak"
    )
    times = [at * PIECE / RATE for at in range(len(pieces))]
    loudness = [min(1.0, 4 * piece.abs().max().item()) for piece in pieces]
    show.curves(
        args.out / "voice.png", "speech", "seconds", {"loudness": (times, loudness), "speech": (times, chances)}
    )


if __name__ == "__main__":
    main()
