import type { Instance } from "@diskmesh/api/director";
import { type Columns, short } from "../../output/output.js";
import type { Action } from "../action.js";

const COLUMNS: Columns<Instance> = {
  instance: ({ group, index }) => `${group}/${index}`,
  id: ({ instanceId }) => instanceId,
  state: ({ state, ignore }) => (ignore ? `${short(state)}, ignored` : short(state)),
  vm: ({ vmCid }) => vmCid,
  "vm state": ({ vmState }) => short(vmState),
  jobs: ({ jobsState }) => short(jobsState),
  az: ({ az }) => az,
  cpi: ({ cpi }) => cpi,
};

export const instances: Action = {
  usage: "instances <deployment>",
  summary: "list the instances of a deployment, with their VMs",
  example: "diskmesh instances demo",
  run: async ({ mesh, output, args: [deployment = ""] }) => {
    const { instances: found } = await mesh.deployments.listInstances({ deployment });
    output.list(COLUMNS, found, "no instances");
  },
};
