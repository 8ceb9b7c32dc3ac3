import { expect } from "chai";
import type { FileFleet } from "./file-fleet.js";
import { violationsOf } from "./verdict.js";

/** Returns a healthy state that each test changes: one VM with an attached disk, and a detached disk. */
function world() {
  const made = (name: string) => `{"name":"${name}"}`;
  const [cloudOf, agentLinks] = [
    {
      vms: new Map([["vm-1", "agent-1"]]),
      disks: new Map([
        ["cid-a", made("a")],
        ["cid-b", made("b")],
      ]),
      attached: new Map([["cid-a", "vm-1"]]),
      violations: [] as string[],
    },
    new Map([["cid-a", {}]]),
  ];
  const instances = [{ instanceId: "i-1", vmCid: "vm-1", agentId: "agent-1" }];
  const disks = [
    { diskName: "a", diskCid: "cid-a", vmCid: "vm-1" },
    { diskName: "b", diskCid: "cid-b", vmCid: "" },
  ];
  const possibleOrphans: { token: string; madeFor: string }[] = [];
  const wanted = new Map([
    ["a", true],
    ["b", false],
  ]);
  const fleet = {
    cloud: {
      vms: () => cloudOf.vms,
      disks: () => cloudOf.disks,
      attached: () => cloudOf.attached,
      violations: () => cloudOf.violations,
    },
    agents: new Map([["agent-1", { links: agentLinks }]]),
    mesh: {
      clients: {
        deployments: {
          listDeployments: async () => ({ deployments: [{ name: "base" }] }),
          listInstances: async () => ({ instances }),
          listPossibleOrphans: async () => ({ possibleOrphans, nextPageToken: "" }),
        },
        disks: { listDynamicDisks: async () => ({ disks, nextPageToken: "" }) },
      },
    },
  } as unknown as FileFleet;
  return { cloud: cloudOf, agentLinks, instances, disks, possibleOrphans, wanted, fleet };
}

describe("the violations that the takeover test detects", () => {
  const ROWS: [string, (of: ReturnType<typeof world>) => unknown, string[]][] = [
    ["all is well", () => {}, []],
    [
      "the infrastructure noticed two at one thing",
      ({ cloud }) => cloud.violations.push("two at vm-1"),
      ["two at vm-1"],
    ],
    [
      "a VM that is nobody's",
      ({ cloud }) => cloud.vms.set("vm-2", "agent-2"),
      ["VM vm-2 is nobody's, and no possible orphan"],
    ],
    [
      "the same, and it is listed",
      ({ cloud, possibleOrphans }) => {
        cloud.vms.set("vm-2", "agent-2");
        possibleOrphans.push({ token: "agent-2", madeFor: "base/i-1" });
      },
      [],
    ],
    ["a VM that is gone", ({ cloud }) => cloud.vms.delete("vm-1"), ['instance i-1 has VM "vm-1", which is not there']],
    ["a disk that is gone", ({ cloud }) => cloud.disks.delete("cid-b"), ["disk b is cid-b, which is not there"]],
    [
      "a disk that was made twice",
      ({ cloud }) => cloud.disks.set("cid-c", '{"name":"b"}'),
      ["1 more disks were made for b, and 0 are listed"],
    ],
    [
      "the same, and it is listed",
      ({ cloud, possibleOrphans }) => {
        cloud.disks.set("cid-c", '{"name":"b"}');
        possibleOrphans.push({ token: "t", madeFor: "dynamic disk b" });
      },
      [],
    ],
    [
      "a detach that was recorded, and not done",
      ({ cloud }) => cloud.attached.set("cid-b", "vm-1"),
      ['disk b is attached to "vm-1", and is recorded at ""'],
    ],
    [
      "an attached disk that nobody knows",
      ({ cloud }) => cloud.attached.set("cid-x", "vm-1"),
      ["cid-x, nobody's, is attached"],
    ],
    ["a wish that nobody kept", ({ wanted }) => wanted.set("b", true), ['disk b was provided, and its VM is ""']],
    ["a disk that was forgotten", ({ wanted }) => wanted.set("c", true), ["disk c was provided, and nobody knows it"]],
    [
      "a link that is left",
      ({ agentLinks }) => agentLinks.set("cid-b", {}),
      ["agent agent-1 has a link for cid-b still"],
    ],
    ["a link that is missing", ({ agentLinks }) => agentLinks.delete("cid-a"), ["agent agent-1 has no link for cid-a"]],
  ];
  for (const [what, change, violations] of ROWS)
    it(`${what} -> ${violations.join("; ") || "none"}`, async () => {
      const changed = world();
      change(changed);
      expect(await violationsOf(changed.fleet, changed.wanted)).to.deep.equal(violations);
    });
});
