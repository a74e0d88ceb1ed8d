"""What every measure shares: processes and their events, the commands of ours and of the peers, statistics, tables."""
