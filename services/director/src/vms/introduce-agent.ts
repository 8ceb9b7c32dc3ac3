import { NO_SETTINGS } from "../agents/agent-calls.js";
import { applySpec, withFoundAddresses } from "../instances/apply-spec.js";
import { changeInstance } from "../instances/instance-record.js";
import { persistentDiskOf } from "../instances/recorded-deployments.js";
import type { Instance } from "../store/instance.js";
import { sameJson } from "../store/json.js";
import type { TaskRun } from "../tasks/task-run.js";
import type { VmJobContext } from "./context.js";

/**
 * Sends an answering agent its settings, for which it may restart, and then its instance spec, in BOSH's order. Records
 * the addresses that the agent has found. Agents that do not support these methods, such as disk-agent, are skipped.
 * Requires the instance's lock.
 */
export async function introduceAgent(context: VmJobContext, run: TaskRun, instance: Instance): Promise<void> {
  const { agentId, instanceId } = instance;
  const { readyTimeoutMs: timeoutMs } = context.config.agents;
  const updated = await context.agents.ask(run, agentId, "update_settings", [NO_SETTINGS], { timeoutMs });
  if (updated !== undefined) await context.agents.awaitAnswer(run, agentId, timeoutMs);
  if (!(await applyTo(context, run, instance, timeoutMs))) return;
  const state = await context.agents.ask(run, agentId, "get_state", [], { timeoutMs });
  if (!sameJson(withFoundAddresses(instance, state).networks, instance.networks))
    await changeInstance(context, instanceId, (current) => withFoundAddresses(current, state));
}

/** Sends the instance spec; returns false when the agent does not support `apply`. */
export async function applyTo(
  context: VmJobContext,
  run: TaskRun,
  { agentId, instanceId }: Instance,
  timeoutMs: number = context.config.agents.readyTimeoutMs,
): Promise<boolean> {
  const spec = await context.tablet.read((tables) => {
    const instance = tables.instances.get(instanceId);
    return instance && applySpec(instance, persistentDiskOf(tables, instanceId)?.sizeMib ?? 0);
  });
  return (await context.agents.ask(run, agentId, "apply", [spec], { timeoutMs })) !== undefined;
}
