"""What the processor says of itself, where the system tells."""

from __future__ import annotations

import re
from pathlib import Path

PLACE = Path("/proc/cpuinfo")  # Linux's


def processor_says(field: str) -> str | None:
    """Return a field such as 'model name' or 'vendor_id'; None where nothing can be read."""
    try:
        text = PLACE.read_text(errors="replace")
    except OSError:
        return None
    match = re.search(rf"^{re.escape(field)}\s*:\s*(.+)$", text, re.MULTILINE)
    return match[1].strip() if match else None
