import { ResourceExhaustedError } from "@diskmesh/domain";
import { Slots } from "@diskmesh/service";

/** A check takes 32 MiB and 100 ms of CPU, so the last of 100 queued checks runs after 5 s. */
const LIMITS = { maxConcurrentPasswordChecks: 2, maxWaitingPasswordChecks: 100 };

/** The maximum fraction of the queue for one network, so that other networks find a place. */
const NETWORK_SHARE = 1 / 2;

/**
 * Returns a runner that limits concurrent password checks. At most maxConcurrentPasswordChecks checks of a network run
 * or wait in the queue that all networks share; the network's other checks wait until one of these ends. A network with
 * many checks therefore delays other networks little. The runner throws ResourceExhaustedError when too many checks
 * wait, and the signal's reason when it aborts.
 */
export function passwordQueue({ maxConcurrentPasswordChecks, maxWaitingPasswordChecks } = LIMITS) {
  const all = new Slots(maxConcurrentPasswordChecks);
  const networks = new Map<string, Slots>();
  const maxChecks = maxConcurrentPasswordChecks + maxWaitingPasswordChecks;
  let checks = 0;
  return async <Result>(network: string, signal: AbortSignal, check: () => Promise<Result>): Promise<Result> => {
    const own = networks.get(network) ?? new Slots(maxConcurrentPasswordChecks);
    if (checks >= maxChecks || own.inUse >= Math.max(maxConcurrentPasswordChecks, maxChecks * NETWORK_SHARE))
      throw new ResourceExhaustedError("too many logins wait for their password check: try again later", {
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
