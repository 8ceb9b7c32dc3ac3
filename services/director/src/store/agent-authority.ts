/**
 * An authority that signed agent certificates. NATS must trust the authority as long as any of its certificates may be
 * in use.
 */
export interface RecordedAuthority {
  /** SHA-256 of the authority's certificate, in hex. */
  readonly id: string;
  readonly certPem: string;
  readonly sinceMs: number;
}
