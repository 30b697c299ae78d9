"""The public Python API, as `import tracekit as tk` offers it; the commands call it too."""
