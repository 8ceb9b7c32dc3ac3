import { envWithCert, mbusOf, withKey } from "../model/agent-key.js";
import type { Instance } from "../model/instance.js";
import type { JsonObject } from "../model/json.js";
import { changeInstance } from "./instance-record.js";
import type { JobContext } from "./job-context.js";

/**
 * The env of a create_vm with a certificate of the agent's own, which NATS takes from now on. Its private key is made for
 * this call and not stored: a later call gets another one. Env as it is where the manifest gives one, or nobody signs.
 */
export async function envOfAgent(context: JobContext, intended: Instance, env: JsonObject): Promise<JsonObject> {
  const { agentCertificates } = context;
  if (agentCertificates === undefined || mbusOf(env).cert !== undefined) return env;
  const { key, cert } = await agentCertificates.issue(intended.vmToken);
  await changeInstance(context, intended.instanceId, (current) => ({
    ...current,
    agentKeys: withKey(current.agentKeys, key),
  }));
  return envWithCert(env, cert);
}
