import { readFile } from "node:fs/promises";
import { formatHostPort, hostPortOf } from "@diskmesh/domain";
import type { DirectorConfig } from "../config/config.js";
import type { AgentSettings } from "../specs/agent-settings.js";

/** Stock agents replace this path by their own folder. */
const OWN_FOLDER = "/var/vcap/micro_bosh/data/cache";

/**
 * Returns the agent settings for the env of create_vm: the config's settings and the CA of the director's HTTPS API, to
 * which agents upload their logs. The CA is part of the blobstore settings because stock agents read it only there.
 */
export async function agentSettingsOf({ agents, http, tls }: DirectorConfig): Promise<AgentSettings> {
  const { settings, logs } = agents;
  if (http === undefined || settings.blobstores !== undefined) return settings as AgentSettings;
  const ca = await readFile(logs.caFile ?? http.tls?.caFile ?? tls.caFile, "utf8");
  const options = { blobstore_path: OWN_FOLDER, tls: { cert: { ca } } };
  return { ...(settings as AgentSettings), blobstores: [{ provider: "local", options }] };
}

/**
 * Returns the URL at which agents reach the director's HTTPS API; undefined when the API is off or has no fixed
 * address.
 */
export function logsUrlOf({ agents, http }: DirectorConfig, address: string): string | undefined {
  if (agents.logs.url !== undefined) return agents.logs.url.replace(/\/+$/, "");
  const host = hostPortOf(address)?.host;
  if (http === undefined || http.listen.port === 0 || host === undefined) return undefined;
  return `https://${formatHostPort({ host, port: http.listen.port })}`;
}
