import { expect } from "chai";
import { newInstance } from "../instances/instance.js";
import type { Instance } from "../store/instance.js";
import { decideResurrections, isUnknownAttach, isWatched, type WatchedVm } from "./resurrection.js";
import { isSwitchedOn } from "./resurrection-switch.js";

const LIMITS = { silentAfterMs: 120_000, deadAfterMs: 600_000 };

const vm = (
  instanceId: string,
  silentMs: number,
  more: Partial<Omit<WatchedVm, "instance">> & { instance?: object } = {},
): WatchedVm => {
  const place = { instanceId, deployment: "d", group: "db", index: 0, az: "z1" };
  const instance: Instance = { ...newInstance(place), vmState: "running", vmCid: `vm-${instanceId}`, ...more.instance };
  return { isOn: true, isShutOut: false, hasUnknownAttach: false, silentMs, ...more, instance };
};
const well = (count: number, deployment = "d"): WatchedVm[] =>
  Array.from({ length: count }, (_, index) => vm(`well-${deployment}-${index}`, 20_000, { instance: { deployment } }));
const silent = (count: number, silentMs: number, deployment = "d"): WatchedVm[] =>
  Array.from({ length: count }, (_, index) =>
    vm(`silent-${deployment}-${index}`, silentMs, { instance: { deployment } }),
  );

describe("decisions about VMs with silent agents", () => {
  const cases: [what: string, watched: WatchedVm[], verdicts: string[]][] = [
    ["all agents send heartbeats -> nothing", well(10), []],
    ["silent, not yet for long -> nothing", [...well(4), vm("a", 119_999)], []],
    ["silent -> recreated if its CPI reports it gone", [...well(4), vm("a", 120_000)], ["a make_anew"]],
    ["silent for much longer -> recreated", [...well(4), vm("a", 600_000)], ["a make_anew dead"]],
    [
      "already lost -> recreated likewise",
      [...well(4), vm("a", 120_000, { instance: { vmState: "lost" } })],
      ["a make_anew"],
    ],
    [
      "silent for much longer with an expired certificate -> recreated only if its CPI reports it gone",
      [...well(4), vm("a", 600_000, { isShutOut: true })],
      ["a make_anew"],
    ],
    ["switched off -> nothing", [...well(4), vm("a", 600_000, { isOn: false })], []],
    ["ignored -> held", [...well(4), vm("a", 600_000, { instance: { ignore: true } })], ["a hold it is ignored"]],
    [
      "the outcome of an attach is unknown -> held",
      [...well(4), vm("a", 600_000, { hasUnknownAttach: true })],
      ["a hold it is not known whether a disk is attached to it: detach the disk, or scan"],
    ],
    ["the only VM -> recreated: its failure looks like any other", [vm("a", 120_000)], ["a make_anew"]],
    ["all of four -> recreated", silent(4, 120_000), ["make_anew", "make_anew", "make_anew", "make_anew"]],
    ["two of five -> recreated", [...well(3), ...silent(2, 120_000)], ["make_anew", "make_anew"]],
    ["half of six -> recreated", [...well(3), ...silent(3, 120_000)], ["make_anew", "make_anew", "make_anew"]],
    [
      "three of five of a deployment, of many agents -> held",
      [...well(20, "other"), ...well(2), ...silent(3, 120_000)],
      [
        "hold more than half of its deployment's",
        "hold more than half of its deployment's",
        "hold more than half of its deployment's",
      ],
    ],
    [
      "one VM, while others of its deployment just missed a heartbeat -> held, because heartbeats are spread in time",
      [...well(20, "other"), ...well(2), ...silent(2, 61_000), vm("a", 120_000)],
      ["a hold more than half of its deployment's"],
    ],
    [
      "a VM in each of several deployments of three, more than half of all -> held",
      [1, 2, 3].flatMap((n) => [...well(1, `d${n}`), ...silent(2, 120_000, `d${n}`)]),
      Array.from({ length: 6 }, () => "hold more than half of all agents"),
    ],
    [
      "all of a deployment with resurrection off, and one elsewhere -> the one elsewhere, if the others are below half of all",
      [...silent(5, 600_000, "off").map((each) => ({ ...each, isOn: false })), ...well(10), vm("a", 120_000)],
      ["a make_anew"],
    ],
    [
      "silent VMs with resurrection off count as silent",
      [...silent(5, 600_000, "off").map((each) => ({ ...each, isOn: false })), ...well(2), vm("a", 120_000)],
      ["a hold more than half of all agents"],
    ],
  ];
  for (const [what, watched, verdicts] of cases)
    it(what, () => {
      const found = decideResurrections(watched, LIMITS).map((verdict) => {
        const detail = verdict.do === "hold" ? ` ${verdict.because}` : verdict.isDead ? " dead" : "";
        return `${verdict.instance.instanceId} ${verdict.do}${detail}`;
      });
      expect(found).to.have.length(verdicts.length);
      for (const [index, verdict] of verdicts.entries()) expect(found[index]).to.include(verdict);
      for (const [index, verdict] of verdicts.entries())
        if (verdict.endsWith("make_anew")) expect(found[index]).to.match(/make_anew$/);
    });
});

describe("VMs whose agents must send heartbeats", () => {
  const at = (part: Partial<Instance>) => isWatched({ ...vm("a", 0).instance, ...part });
  for (const vmState of ["running", "lost"] as const)
    it(`${vmState}: yes`, () => expect(at({ vmState })).to.equal(true));
  // Excluded: a task has begun to create or delete the VM, or the outcome of the last call is unknown.
  for (const vmState of ["none", "creating", "created", "deleting"] as const)
    it(`${vmState}: no`, () => expect(at({ vmState })).to.equal(false));
  it("leaving: no", () => expect(at({ leaving: true })).to.equal(false));
  it("state detached: no", () => expect(at({ state: "detached" })).to.equal(false));
  it("state stopped: yes, because the VM stays", () => expect(at({ state: "stopped" })).to.equal(true));
});

describe("disks that prevent the recreation of their VM", () => {
  for (const [state, expected] of [
    ["attaching", true],
    ["detaching", true],
    ["attached", false],
    ["detached", false],
    ["creating", false],
  ] as const)
    it(`${state}: ${expected}`, () => expect(isUnknownAttach({ state })).to.equal(expected));
});

describe("resurrection by switch and default", () => {
  const cases: [what: string, switches: Record<string, boolean>, byDefault: boolean, expected: boolean][] = [
    ["nothing said, off by default", {}, false, false],
    ["nothing said, on by default", {}, true, true],
    ["on for all", { "*": true }, false, true],
    ["off for all, on for the group", { "*": false, "d db": true }, true, false],
    ["off for the deployment", { "*": true, d: false }, false, false],
    ["off for the deployment, on for the group", { "*": true, d: false, "d db": true }, false, true],
    ["off for the group", { "*": true, "d db": false }, false, false],
    ["off for another group", { "*": true, "d web": false }, false, true],
  ];
  for (const [what, switches, byDefault, expected] of cases)
    it(`${what}: ${expected ? "yes" : "no"}`, () =>
      expect(isSwitchedOn((scope) => switches[scope], { deployment: "d", group: "db" }, byDefault)).to.equal(expected));
});
