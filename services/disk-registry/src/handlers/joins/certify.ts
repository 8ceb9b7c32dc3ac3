import { type HostId, InvalidStateError } from "@diskmesh/domain";
import { type HostRequest, openHostAuthority, parseHostRequest, signHostCertificate } from "@diskmesh/pki";
import type { Context } from "../../calls/context.js";
import { IS_NOTED, noteWithoutChange } from "../../model/events/events.js";
import type { HostCertificate } from "../../model/store/join-token.js";
import type { RegistryTransaction } from "../../model/store/schema.js";
import { eventLimits } from "../../requests/limits.js";

interface Certifying {
  readonly hostId: HostId;
  /** Signing request, as PEM text, that is not checked yet. */
  readonly signingRequest: string;
  /** Caller and action of the event. */
  readonly event: { readonly user: string; readonly action: string };
  /**
   * Records the certificate within the transaction; throws unless the host may have it. Returns whether it has had one: such an event
   * is routine, so that repetitions evict no other events.
   */
  readonly decide: (tx: RegistryTransaction, request: HostRequest, certificate: HostCertificate) => boolean;
}

/**
 * Signs a certificate for a host, and returns it as PEM text, followed by that of its authority. What `decide` has
 * changed, and an event with the serial number, are durable before the certificate is returned, so that an operator can
 * revoke each certificate.
 */
export async function certify({ tablet, config, clock }: Context, certifying: Certifying): Promise<string> {
  const { hostId, signingRequest, event, decide } = certifying;
  if (config.join === undefined)
    throw new InvalidStateError(
      "this registry signs no certificates: give it `join` in its config (docs/operate/join-hosts.md)",
    );
  const request = await parseHostRequest(signingRequest, hostId);
  const { chainPem, ...certificate } = await signHostCertificate(
    await openHostAuthority(config.join.authority),
    request,
  );
  const message = `host ${hostId} has the certificate ${certificate.serialNumber}`;
  const noted = { ...event, hostIds: [hostId], deviceIds: [], diskIds: [], answer: "OK", message };
  await tablet.transact((tx) => {
    const routine = decide(tx, request, certificate) ? ({ routine: true } as const) : {};
    noteWithoutChange(tx, { ...noted, ...routine }, eventLimits(config), clock.nowMs());
  }, IS_NOTED);
  return chainPem;
}
