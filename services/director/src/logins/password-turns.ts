import { ResourceExhaustedError } from "@diskmesh/domain";
import { Slots } from "@diskmesh/service";

/** Each check takes 32 MiB and a tenth of a second of a processor, so the last of 100 that wait is checked after 5 s. */
const LIMITS = { maxConcurrentPasswordChecks: 2, maxWaitingPasswordChecks: 100 };

/** A network may take so much of the places, so that another finds one. */
const NETWORK_SHARE = 1 / 2;

/**
 * Returns what runs a password check in its turn. Each network has no more checks in the common line than run at once:
 * a check waits for few of another network, however many that sends. The runner throws ResourceExhaustedError when
 * there is no place, or the signal's reason.
 */
export function passwordTurns({ maxConcurrentPasswordChecks, maxWaitingPasswordChecks } = LIMITS) {
  const all = new Slots(maxConcurrentPasswordChecks);
  const networks = new Map<string, Slots>();
  const maxChecks = maxConcurrentPasswordChecks + maxWaitingPasswordChecks;
  let checks = 0;
  return async <Result>(network: string, signal: AbortSignal, check: () => Promise<Result>): Promise<Result> => {
    const own = networks.get(network) ?? new Slots(maxConcurrentPasswordChecks);
    if (checks >= maxChecks || own.inUse >= Math.max(maxConcurrentPasswordChecks, maxChecks * NETWORK_SHARE))
      throw new ResourceExhaustedError("too many passwords wait to be checked: try again", {
        reason: "QUEUE_FULL",
        retryAfterMs: 1_000,
      });
    networks.set(network, own);
    checks++;
    try {
      return await own.run(() => all.run(check, signal), signal);
    } finally {
      checks--;
      if (own.inUse === 0) networks.delete(network);
    }
  };
}
