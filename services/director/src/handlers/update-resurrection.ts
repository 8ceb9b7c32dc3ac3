import type { UpdateResurrectionRequest, UpdateResurrectionResponse } from "@diskmesh/api/director";
import { InvalidArgumentError, parseName } from "@diskmesh/domain";
import type { CallContext } from "@diskmesh/rpc";
import type { TaskContext } from "../context.js";
import { requireDeployment } from "../model/recorded-deployments.js";
import { EVERYWHERE, scopeOf } from "../model/resurrection-switch.js";
import { askerOf } from "../workers/tasks.js";

export async function updateResurrection(
  { tablet, events }: TaskContext,
  { wanted }: UpdateResurrectionRequest,
  call: CallContext,
): Promise<UpdateResurrectionResponse> {
  if (wanted === undefined) throw new InvalidArgumentError("name what to switch: wanted is missing");
  const { enabled: isOn } = wanted;
  const deployment = wanted.deployment === "" ? "" : parseName("deployment", wanted.deployment);
  if (deployment === "" && wanted.group !== "")
    throw new InvalidArgumentError("a group is of a deployment: name that, too");
  const group = wanted.group === "" ? "" : parseName("group", wanted.group);
  const scope = deployment === "" ? EVERYWHERE : scopeOf(deployment, group);
  const deed = { action: isOn ? "enable" : "disable", objectType: "resurrection", objectName: scope };
  await tablet.transact((tx) => {
    if (deployment !== "") requireDeployment(tx, deployment);
    tx.resurrectionSwitches.put({ scope, isOn });
    events.note(tx, deed, askerOf(call), { deployment });
  });
  return {};
}
