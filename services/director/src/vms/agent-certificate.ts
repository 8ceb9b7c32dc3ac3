import { NotImplementedError } from "@diskmesh/domain";
import { NO_SETTINGS } from "../agents/agent-calls.js";
import { envWithCert, mbusOf, withKey } from "../agents/agent-key.js";
import { notifyAgentOfDisks } from "../disks/dynamic/provide.js";
import { changeInstance } from "../instances/instance-record.js";
import { formatInstance, type Instance } from "../store/instance.js";
import type { JsonObject } from "../store/json.js";
import type { TaskRun } from "../tasks/task-run.js";
import type { VmJobContext } from "./context.js";

/**
 * Maximum wait for an agent's answer. The wait is short, because renewals select only agents that sent a message
 * recently.
 */
const AWAY_AFTER_MS = 5_000;
/**
 * An agent restarts without an answer. To wait longer for it would keep the VM's lock from those who wait for it, for
 * whom a renewal is stopped after some seconds.
 */
const RESTART_ANSWER_MS = 1_000;

/**
 * Returns the env of create_vm with a new certificate for the agent, which NATS accepts from now on. The private key is
 * made for this call and never stored, so a repeated call gets another key. Returns the env unchanged when the manifest
 * supplies a certificate or when no authority is configured.
 */
export async function envOfAgent(context: VmJobContext, intended: Instance, env: JsonObject): Promise<JsonObject> {
  const { agentCertificates } = context.making;
  if (agentCertificates === undefined || mbusOf(env).cert !== undefined) return env;
  const { key, cert } = await agentCertificates.issue(intended.vmToken);
  await changeInstance(context, intended.instanceId, (current) => ({
    ...current,
    agentKeys: withKey(current.agentKeys, key),
  }));
  return envWithCert(env, cert);
}

/**
 * Gives an agent a new certificate; the agent restarts with it. The old certificate stays valid until the agent is
 * known to use the new certificate. Requires the instance's lock.
 */
export async function renewCertificate(context: VmJobContext, run: TaskRun, instance: Instance): Promise<void> {
  const { agentCertificates } = context.making;
  if (agentCertificates === undefined) return;
  const { agentId, instanceId } = instance;
  const { settings } = context.config.agents;
  const { attachTimeoutMs: timeoutMs } = context.limits.agents;
  await run.stage("Renewing certificates", formatInstance(instance), async () => {
    // An agent that does not answer gets no certificate: repeated attempts would leave several certificates, and it
    // would be unknown which the agent uses.
    await context.agents.awaitAnswer(run, agentId, AWAY_AFTER_MS);
    const { key, cert } = await agentCertificates.issue(agentId);
    await changeInstance(context, instanceId, (current) => ({
      ...current,
      agentKeys: withKey(current.agentKeys, key),
    }));
    const mbus = { cert, ...(settings.mbus && { urls: settings.mbus.urls }) };
    // The CAs of the blobstore for log uploads rotate together with the certificates.
    const { blobstores } = context.making.agentSettings;
    const given = { ...NO_SETTINGS, mbus, ...(blobstores !== undefined && { blobstores }) };
    // The request is repeated until the restarted agent answers it. Only a restarted agent has applied the settings.
    const done = await context.agents.ask(run, agentId, "update_settings", [given], {
      timeoutMs,
      requestTimeoutMs: RESTART_ANSWER_MS,
    });
    if (done === undefined)
      throw new NotImplementedError(
        `agent ${agentId} does not support update_settings: recreate its VM before its certificate ends`,
      );
    await context.agents.awaitAnswer(run, agentId, timeoutMs);
    const takesOne = (current: Instance): Instance => ({
      ...current,
      agentKeys: current.agentKeys?.filter(({ pin }) => pin === key.pin),
    });
    // The disks are sent before the renewal counts as done, because heartbeats alone may not reveal so short a restart.
    await notifyAgentOfDisks(context, run, agentId).finally(() => changeInstance(context, instanceId, takesOne));
  });
}
