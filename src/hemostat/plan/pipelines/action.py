"""`Action`: one pass of one micro-batch through one stage; `StageTime`: how long such passes take."""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

Kind = Literal["forward", "backward", "backward_input", "backward_weight"]
# torch's pipelining prints the same letters
LETTERS: Final[dict[Kind, str]] = {
    "forward": "F",
    "backward": "B",
    "backward_input": "I",
    "backward_weight": "W",
}


class Action(NamedTuple):
    """What a rank does next.

    Attributes:
        stage: which piece of the model, 0-based.
        kind: "forward"; "backward", all of it; or its two parts, "backward_input" (gradient of what came in,
            which the stage before waits for) and "backward_weight" (gradient of the parameters, which nobody
            waits for).
        micro_batch: which of the samples, 0-based.

    Examples:
        >>> str(Action(2, "forward", 0))
        '2F0'
    """

    stage: int
    kind: Kind
    micro_batch: int

    def __str__(self) -> str:
        """Stage, letter, micro-batch."""
        return f"{self.stage}{LETTERS.get(self.kind, self.kind)}{self.micro_batch}"


class StageTime(NamedTuple):
    """Seconds that one micro-batch takes in one stage; without figures all three parts take equally long.

    Attributes:
        forward_s: forward pass.
        backward_input_s: gradient of the stage's input.
        backward_weight_s: gradient of its parameters.
    """

    forward_s: float = 1.0
    backward_input_s: float = 1.0
    backward_weight_s: float = 1.0

    def of(self, kind: Kind) -> float:
        """Seconds of one action; a whole backward pass is the sum of its parts.

        Examples:
            >>> StageTime().of("backward")
            2.0
        """
        seconds: dict[Kind, float] = {
            "forward": self.forward_s,
            "backward": self.backward_input_s + self.backward_weight_s,
            "backward_input": self.backward_input_s,
            "backward_weight": self.backward_weight_s,
        }
        return seconds[kind]
