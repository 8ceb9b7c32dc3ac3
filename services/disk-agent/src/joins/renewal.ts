import { X509Certificate } from "node:crypto";
import { readFile } from "node:fs/promises";
import { AgentRegistrationServiceDefinition } from "@diskmesh/api/internal";
import { replaceFile } from "@diskmesh/atomic-file";
import { joinedHostUri, type Logger } from "@diskmesh/domain";
import { hostRequest } from "@diskmesh/pki";
import { type Client, createClient } from "@diskmesh/rpc";
import { type Clock, type Lifecycle, systemClock } from "@diskmesh/service";
import type { AgentConfig } from "../base/config.js";
import { repeat } from "../base/repeat.js";
import { requireOwn } from "./join.js";

/** Fraction of a certificate's lifetime after which the agent asks for another one. */
const DUE_AFTER = 1 / 3;
const CHECK_INTERVAL_MS = 60 * 60 * 1_000;
const TIMEOUT_MS = 15_000;

interface Renewal {
  readonly config: Pick<AgentConfig, "hostId" | "tls">;
  /** Connects to the registry, for one renewal. */
  readonly connect: () => Pick<Client<typeof AgentRegistrationServiceDefinition>, "renewCertificate" | "close">;
  readonly clock: Clock;
  readonly log: Logger;
}

/** Renews the certificate of a joined host until the service stops, with a check each hour. */
export function keepRenewed(lifecycle: Lifecycle, config: AgentConfig, log: Logger): void {
  const { tls, registry } = config;
  const options = {
    address: registry.address,
    tls,
    serverRole: "disk-registry",
    defaultDeadlineMs: TIMEOUT_MS,
  } as const;
  const connect = () => createClient(AgentRegistrationServiceDefinition, options);
  const work = () => renewIfDue({ config, connect, clock: systemClock, log });
  const stop = new AbortController();
  const common = { clock: systemClock, log, signal: stop.signal };
  const running = repeat({ ...common, what: "certificate renewal", everyMs: CHECK_INTERVAL_MS, work });
  lifecycle.use("certificate renewal", async () => {
    stop.abort(new Error("the agent is stopping"));
    await running;
  });
}

/**
 * Renews the certificate for the same key when a third of its lifetime has passed. Leaves a certificate alone that an
 * operator has made. The process loads the new file as it loads any changed file of `tls`.
 */
export async function renewIfDue({ config: { hostId, tls }, connect, clock, log }: Renewal): Promise<void> {
  const { subjectAltName, validFrom, validTo } = new X509Certificate(await readFile(tls.certFile));
  const [fromMs, toMs] = [Date.parse(validFrom), Date.parse(validTo)];
  const isDue = clock.nowMs() >= fromMs + (toMs - fromMs) * DUE_AFTER;
  if (!isDue || subjectAltName !== `URI:${joinedHostUri(hostId)}`) return;
  const keyPem = await readFile(tls.keyFile, "utf8");
  const signingRequest = await hostRequest(hostId, keyPem);
  const client = connect();
  try {
    const { certificate } = await client.renewCertificate({ hostId, signingRequest });
    requireOwn(certificate, keyPem, hostId);
    await replaceFile(tls.certFile, certificate, { mode: 0o644 });
    log.info({ hostId, serialNumber: new X509Certificate(certificate).serialNumber }, "certificate renewed");
  } finally {
    client.close();
  }
}
