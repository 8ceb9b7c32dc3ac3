/** Host monitoring state that a leader leaves to the next one. There is a single document. */
export interface Vigil {
  readonly name: typeof VIGIL;
  /**
   * Total time in ms that leaders of this tablet have listened for heartbeats, as far as recorded. Each leader measures
   * with its monotonic clock and continues from the recorded value. Absent: never recorded.
   */
  readonly listenedMs?: number | undefined;
  /** Written by 0.1.0; no longer read. */
  readonly awakeAtMs?: number | undefined;
  /** True while a mass silence is ongoing. */
  readonly massSilence?: true | undefined;
  /** Time at which the mass silence was noticed. */
  readonly massSilenceSinceMs?: number | undefined;
}

export const VIGIL = "hosts";
