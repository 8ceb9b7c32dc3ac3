import { X509Certificate } from "node:crypto";
import {
  AgentCertificateState,
  type AgentAuthority as WireAgentAuthority,
  type AgentCertificate as WireAgentCertificate,
} from "@diskmesh/api/director";
import type { RecordedAuthority } from "../store/agent-authority.js";
import type { AgentTrust, Instance } from "../store/instance.js";
import { type CertificateState, certificateState, endOfKeys } from "./agent-key.js";

const STATES: Readonly<Record<CertificateState, AgentCertificateState>> = {
  valid: AgentCertificateState.VALID,
  due: AgentCertificateState.DUE,
  ended: AgentCertificateState.ENDED,
  left_behind: AgentCertificateState.LEFT_BEHIND,
};

/**
 * Returns the certificate state for clients. Without `trust` this director signs no certificates, so the agent's own
 * certificate serves as the trust and the state reports no change of trust.
 */
export function encodeAgentCertificate(
  { agentId, vmToken, instanceId, group, deployment, vmCid, agentKeys = [] }: Instance,
  trust: AgentTrust | undefined,
  nowMs: number,
): WireAgentCertificate {
  const endsAtMs = endOfKeys(agentKeys);
  const [any] = agentKeys;
  return {
    agentId: agentId || vmToken,
    instanceId,
    group,
    deployment,
    vmCid,
    state: STATES[certificateState(agentKeys, trust ?? any ?? { authority: "", trusted: "" }, nowMs)],
    expireTime: endsAtMs === undefined ? undefined : new Date(endsAtMs),
    authorityIds: [...new Set(agentKeys.map(({ authority }) => authority))],
  };
}

export function encodeAgentAuthority(
  { id, certPem, sinceMs }: RecordedAuthority,
  use: Pick<WireAgentAuthority, "signs" | "agents">,
): WireAgentAuthority {
  const expireTime = new Date(new X509Certificate(certPem).validTo);
  return { authorityId: id, ...use, startTime: new Date(sinceMs), expireTime, certificatePem: certPem };
}
