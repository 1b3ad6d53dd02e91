"""One file per way of foretelling memory that users would pick instead; each is asked the same `Case`.

`predicted_bytes(case)` is the peak of one device as that tool says it, or None where the tool has no word for
something that the case does: a layout axis, shared-out states, adapters.
"""
