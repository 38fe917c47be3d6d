"""The applications: nouns only. What an app offers is written in `onefold.worker.apps`."""
