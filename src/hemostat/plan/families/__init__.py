"""Models of known families as profiles, in closed form: from a config.json or from a few numbers."""

from hemostat.plan.families.config_json import FAMILIES, decoder_of, read_config
from hemostat.plan.families.decoder import Decoder, decoder_profile
from hemostat.plan.families.lora import lora_profile
from hemostat.plan.families.numbers import decoder_from_numbers
from hemostat.plan.families.software import LOSSES, SOFTWARE, Loss, Software

__all__ = [
    "FAMILIES",
    "LOSSES",
    "SOFTWARE",
    "Decoder",
    "Loss",
    "Software",
    "decoder_from_numbers",
    "decoder_of",
    "decoder_profile",
    "lora_profile",
    "read_config",
]
