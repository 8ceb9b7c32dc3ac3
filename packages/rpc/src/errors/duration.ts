import type { RetryInfo } from "@diskmesh/api/google-rpc";

/** google.protobuf.Duration in the form of the generated messages. */
type Duration = NonNullable<RetryInfo["retryDelay"]>;

const MS_PER_SECOND = 1_000;
const NANOS_PER_MS = 1_000_000;

/** Returns the duration of a number of milliseconds, rounded to whole ones. */
export function durationOf(ms: number): Duration {
  const wholeMs = Math.round(ms);
  return { seconds: Math.trunc(wholeMs / MS_PER_SECOND), nanos: (wholeMs % MS_PER_SECOND) * NANOS_PER_MS };
}

/** Returns a duration in milliseconds; 0 when it is absent. */
export function msOfDuration(duration: Duration | undefined): number {
  const { seconds = 0, nanos = 0 } = duration ?? {};
  return seconds * MS_PER_SECOND + nanos / NANOS_PER_MS;
}
