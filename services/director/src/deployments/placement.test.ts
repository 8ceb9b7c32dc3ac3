import { expect } from "chai";
import type { InstanceGroup } from "../specs/instance-group.js";
import type { Instance } from "../store/instance.js";
import { placeInstances } from "./placement.js";

function ids(): () => string {
  let next = 0;
  return () => `new-${++next}`;
}
const text = (instance: Instance): string => `${instance.group}/${instance.index}@${instance.az}`;

function instances(spec: string): Instance[] {
  return spec
    .split(" ")
    .filter((word) => word !== "")
    .map((word) => {
      const [, group, index, az, mark] = /^(\w+)\/(\d+)@(\w+)(!?)$/.exec(word) as RegExpExecArray;
      const base = placeInstances("web", [{ name: group as string, instances: 1, azs: [az as string] }], [], () => word)
        .added[0];
      return { ...(base as Instance), index: Number(index), leaving: mark === "!" };
    });
}

const group = (name: string, count: number, ...azs: string[]): InstanceGroup => ({ name, instances: count, azs });

const ROWS: { cause: string; groups: InstanceGroup[]; existing: string; added: string[]; leaving: string[] }[] = [
  {
    cause: "nothing yet",
    groups: [group("db", 5, "z1", "z2")],
    existing: "",
    added: ["db/0@z1", "db/1@z2", "db/2@z1", "db/3@z2", "db/4@z1"],
    leaving: [],
  },
  { cause: "all there", groups: [group("db", 2, "z1", "z2")], existing: "db/0@z1 db/1@z2", added: [], leaving: [] },
  {
    cause: "azs in another order",
    groups: [group("db", 2, "z2", "z1")],
    existing: "db/0@z1 db/1@z2",
    added: [],
    leaving: [],
  },
  {
    cause: "one more",
    groups: [group("db", 3, "z1", "z2")],
    existing: "db/0@z1 db/1@z2",
    added: ["db/2@z1"],
    leaving: [],
  },
  {
    cause: "one more where one az is short",
    groups: [group("db", 4, "z1", "z2")],
    existing: "db/0@z1 db/1@z1 db/2@z1",
    added: ["db/3@z2"],
    leaving: [],
  },
  {
    cause: "scaled in",
    groups: [group("db", 1, "z1", "z2")],
    existing: "db/0@z1 db/1@z2 db/2@z1",
    added: [],
    leaving: ["db/1@z2", "db/2@z1"],
  },
  {
    cause: "an az dropped",
    groups: [group("db", 2, "z2")],
    existing: "db/0@z1 db/1@z2",
    added: ["db/0@z2"],
    leaving: ["db/0@z1"],
  },
  {
    cause: "a group dropped",
    groups: [group("db", 1, "z1")],
    existing: "db/0@z1 web/0@z1",
    added: [],
    leaving: ["web/0@z1"],
  },
  {
    cause: "one leaving already",
    groups: [group("db", 1, "z1")],
    existing: "db/0@z1!",
    added: ["db/0@z1"],
    leaving: [],
  },
  { cause: "none wanted", groups: [group("db", 0, "z1")], existing: "db/0@z1", added: [], leaving: ["db/0@z1"] },
  {
    cause: "two groups",
    groups: [group("a", 1, "z1"), group("b", 1, "z1")],
    existing: "",
    added: ["a/0@z1", "b/0@z1"],
    leaving: [],
  },
];

describe("placement of instances", () => {
  for (const row of ROWS) {
    it(`${row.cause} -> adds ${row.added.join(" ") || "none"}, removes ${row.leaving.join(" ") || "none"}`, () => {
      const placement = placeInstances("web", row.groups, instances(row.existing), ids());
      expect(placement.added.map(text)).to.deep.equal(row.added);
      expect(placement.leaving.map(text)).to.deep.equal(row.leaving);
    });
  }

  it("new instances -> have no VM, and unique ids", () => {
    const { added } = placeInstances("web", [group("db", 2, "z1")], [], ids());
    expect(added.map((each) => each.instanceId)).to.deep.equal(["new-1", "new-2"]);
    expect(added[0]).to.include({ deployment: "web", vmState: "none", vmCid: "", leaving: false });
  });
});
