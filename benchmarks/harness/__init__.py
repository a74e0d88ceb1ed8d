"""What all measures share: processes and their events, commands of ours and of the peers, statistics, tables."""
