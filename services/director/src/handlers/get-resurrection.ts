import type { GetResurrectionResponse } from "@diskmesh/api/director";
import type { HealthContext } from "../context.js";
import { decideResurrections, watchedVms } from "../model/resurrection.js";
import { EVERYWHERE } from "../model/resurrection-switch.js";

export async function getResurrection({
  tablet,
  config,
  limits,
  configs,
  agentHealths,
  clock,
}: HealthContext): Promise<GetResurrectionResponse> {
  const silentMsOf = (agentId: string) => agentHealths.shown(agentId).silentMs;
  const nowMs = clock.nowMs();
  return tablet.read((tables) => {
    const watched = watchedVms(tables, silentMsOf, configs.resurrection.wishes(tables), nowMs);
    const verdicts = decideResurrections(watched, limits.resurrection);
    const switches = [...tables.resurrectionSwitches.entries()].filter(({ scope }) => scope !== EVERYWHERE);
    return {
      enabled: tables.resurrectionSwitches.get(EVERYWHERE)?.isOn ?? config.resurrection.enabled,
      switches: switches.map(({ scope, isOn: enabled }) => {
        const [deployment = "", group = ""] = scope.split(" ");
        return { deployment, group, enabled };
      }),
      silentVms: verdicts.map((verdict) => {
        const { deployment, group, instanceId, vmCid, agentId } = verdict.instance;
        const silentSince = new Date(nowMs - silentMsOf(agentId));
        const heldBecause = verdict.do === "hold" ? verdict.because : "";
        return { deployment, group, instanceId, vmCid, silentSince, heldBecause };
      }),
    };
  });
}
