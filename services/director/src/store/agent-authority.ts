/** An authority that signed certificates of agents, and that NATS has to trust as long as one of them may be in use. */
export interface RecordedAuthority {
  /** SHA-256 of its certificate, in hex. */
  readonly id: string;
  readonly certPem: string;
  readonly sinceMs: number;
}
