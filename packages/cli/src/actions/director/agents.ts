import type { AgentCertificate } from "@diskmesh/api/director";
import { allPages } from "@diskmesh/rpc";
import { type Columns, timeText } from "../../output/output.js";
import { type Action, textOption } from "../action.js";

const COLUMNS: Columns<AgentCertificate> = {
  agent: ({ agentId }) => agentId,
  deployment: ({ deployment }) => deployment,
  group: ({ group }) => group,
  vm: ({ vmCid }) => vmCid,
  certificate: ({ state }) => state.replace("AGENT_CERTIFICATE_STATE_", ""),
  ends: ({ expireTime }) => timeText(expireTime),
  "days left": ({ expireTime }) => daysText(expireTime === undefined ? 0 : expireTime.getTime() - Date.now()),
};

const DAY_MS = 86_400_000;

function daysText(ms: number): string {
  // `|| 0` turns -0 into 0.
  return (Math.round((ms * 10) / DAY_MS) / 10 || 0).toFixed(1);
}

export const agents: Action = {
  usage: "agents",
  summary: "list VM agents with a certificate of the director, and its remaining days",
  options: [["--deployment <name>", "only agents of this deployment"]],
  example: "diskmesh agents --deployment web",
  run: async ({ mesh, output, options }) => {
    const deployment = textOption(options, "deployment");
    const found = await allPages(async (pageToken) => {
      const { certificates: items, nextPageToken } = await mesh.vms.listAgentCertificates({ deployment, pageToken });
      return { items, nextPageToken };
    });
    output.list(COLUMNS, found, "no agents with a certificate from the director");
  },
};
