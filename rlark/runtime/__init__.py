"""All that an engine's author needs: components, trajectories, trainers, and `main`."""
