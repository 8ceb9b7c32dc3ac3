import { NotImplementedError } from "@diskmesh/domain";
import { NO_SETTINGS } from "../agents/agent-calls.js";
import { envWithCert, mbusOf, withKey } from "../agents/agent-key.js";
import { tellAgentOfDisks } from "../disks/dynamic/provide.js";
import { changeInstance } from "../instances/instance-record.js";
import { formatInstance, type Instance } from "../store/instance.js";
import type { JsonObject } from "../store/json.js";
import type { TaskRun } from "../tasks/task-run.js";
import type { VmJobContext } from "./context.js";

/** A renewal reached the agent within a minute or two before. */
const AWAY_AFTER_MS = 5_000;

/**
 * The env of a create_vm with a certificate of the agent's own, which NATS takes from now on. Its private key is made for
 * this call and not stored: a later call gets another one. Env as it is where the manifest gives one, or nobody signs.
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
 * Gives an agent another certificate, with which it restarts; the old one counts until the agent is known to have the new
 * one. Needs the instance's lock.
 */
export async function renewCertificate(context: VmJobContext, run: TaskRun, instance: Instance): Promise<void> {
  const { agentCertificates } = context.making;
  if (agentCertificates === undefined) return;
  const { agentId, instanceId } = instance;
  const { settings } = context.config.agents;
  const { attachTimeoutMs: timeoutMs } = context.limits.agents;
  await run.stage("Renewing certificates", formatInstance(instance), async () => {
    // One that is away gets none: of many that were made in vain nobody would know which is used.
    await context.agents.awaitAnswer(run, agentId, AWAY_AFTER_MS);
    const { key, cert } = await agentCertificates.issue(agentId);
    await changeInstance(context, instanceId, (current) => ({
      ...current,
      agentKeys: withKey(current.agentKeys, key),
    }));
    const mbus = { cert, ...(settings.mbus && { urls: settings.mbus.urls }) };
    // The authorities of its log uploads change with the others.
    const { blobstores } = context.making.agentSettings;
    const given = { ...NO_SETTINGS, mbus, ...(blobstores !== undefined && { blobstores }) };
    // It answers when it is back, since only then has it taken what it was given.
    const done = await context.agents.ask(run, agentId, "update_settings", [given], { timeoutMs });
    if (done === undefined)
      throw new NotImplementedError(
        `agent ${agentId} does not know update_settings: make its VM anew before its certificate ends`,
      );
    await context.agents.awaitAnswer(run, agentId, timeoutMs);
    const takesOne = (current: Instance): Instance => ({
      ...current,
      agentKeys: current.agentKeys?.filter(({ pin }) => pin === key.pin),
    });
    // Before it counts as done: by its heartbeats alone a restart as short as this one may stay unseen.
    await tellAgentOfDisks(context, run, agentId).finally(() => changeInstance(context, instanceId, takesOne));
  });
}
