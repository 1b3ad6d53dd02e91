"""Precision by device: bf16 where it is fast, fp16 with loss scaling on older GPUs, else fp32."""

from __future__ import annotations

import re

from hemostat.config import Resolved

# First match wins; the patterns see the name in upper case without "NVIDIA".
_KINDS = (
    (
        r"CPU",
        "fp32",
        "CPUs compute bf16 slowly unless they have AMX",
        "practice",
        "medium",
    ),
    (r"\b(GB200|GB300|B200|B300|B100|H20|H100|H200|GH200|A100|A800|H800)", "bf16", "", "", "high"),
    (r"\b(A10G?|A16|A2|A30|A40|L4|L40S?|L20|A[2456]000)\b", "bf16", "", "", "high"),
    (r"RTX\s?(PRO\s?)?(30|40|50)\d\d|RTX\s?(A\d{4}|[456]000\s?ADA)", "bf16", "", "", "high"),
    (r"\bMI(200|210|250X?|300[AX]|325X|350X?|355X)", "bf16", "", "", "high"),
    (r"\bTPU|\bTRN|TRAINIUM|GAUDI|\bHPU", "bf16", "", "", "high"),
    (r"\b(V100|T4|TITAN\s?(V|RTX)|RTX\s?20\d\d|QUADRO\s?RTX)", "fp16", "", "", "high"),
    (r"\b(P100|P40|P4|M60|K80|GTX)", "fp32", "no tensor cores", "NVIDIA data sheets", "high"),
    (r"\bMPS\b|\bAPPLE|\bM[1-5]\b", "fp32", "autocast gains little there", "practice", "low"),
)
_WHY = {
    "bf16": (
        "bf16 is as fast as fp16 here and has the range of fp32: no loss scaling",
        "vendor data sheets (Ampere and later, CDNA2 and later, TPU)",
    ),
    "fp16": (
        "no bf16 tensor cores: fp16 with dynamic loss scaling",
        "NVIDIA data sheets (Volta, Turing); Micikevicius et al. 2017 (arXiv 1710.03740)",
    ),
}


def precision_for(device: str | None) -> Resolved:
    """The precision to train in on a device.

    Args:
        device: a name as torch or a price list writes it; None: not known.

    Returns:
        Resolved with "bf16", "fp16" (needs loss scaling) or "fp32".

    Source: vendor data sheets; see each row's `source`.

    Examples:
        >>> [precision_for(name).value for name in ("NVIDIA A100-SXM4-80GB", "V100", "Tesla T4", "cpu")]
        ['bf16', 'fp16', 'fp16', 'fp32']
    """
    name = "" if device is None else device.upper()
    for pattern, value, why, source, confidence in _KINDS:
        if re.search(pattern, name):
            why, source = _WHY.get(value, (why, source))
            return Resolved(field="precision", value=value, why=why, source=source, confidence=confidence)
    why = "no device was named" if device is None else f"the device {device!r} is not in the table"
    return Resolved(field="precision", value="fp32", why=f"{why}; fp32 is always right", confidence="low")
