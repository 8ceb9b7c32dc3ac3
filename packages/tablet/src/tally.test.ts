import { expect } from "chai";
import { follow, Tally, Waits } from "./tally.js";

interface Thing {
  readonly id: string;
  readonly state: string;
  readonly sinceMs?: number;
}

describe("a follower of a table", () => {
  it("counts the existing documents and each later change", async () => {
    const things: Thing[] = [
      { id: "a", state: "new", sinceMs: 100 },
      { id: "b", state: "new" },
    ];
    let tell: (changes: readonly object[]) => void = () => {};
    const tablet = {
      read: async (fn: (tables: object) => unknown) => fn({ things: { entries: () => things } }),
      watch: (listener: typeof tell) => {
        tell = listener;
        return () => {
          tell = () => {};
        };
      },
    };
    const byState = new Tally<Thing>(({ state }) => [
      [state, 1],
      ["all", 10],
    ]);
    const waits = new Waits<Thing>(({ sinceMs }) => sinceMs);
    const schema = { things: { key: ({ id }: Thing) => id, indexes: {} } };
    const end = await follow(tablet as never, schema, { things: [byState, waits] });
    const numbers = () => [byState.get("new"), byState.get("old"), byState.get("all"), waits.size, waits.oldestMs(150)];
    expect(numbers()).to.deep.equal([2, 0, 20, 1, 50]);

    const change = (key: string, document: Thing | null, before: Thing | null) =>
      tell([{ table: "things", key, document, previous: before && { document: before, version: 1 } }]);
    const old: Thing = { id: "a", state: "old" };
    change("a", old, things[0] as Thing);
    expect(numbers()).to.deep.equal([1, 1, 20, 0, 0]);
    change("c", { id: "c", state: "new", sinceMs: 120 }, null);
    expect(numbers()).to.deep.equal([2, 1, 30, 1, 30]);
    change("a", null, old);
    expect(numbers()).to.deep.equal([2, 0, 20, 1, 30]);
    tell([{ table: "others", key: "a", document: {}, previous: null }]);
    expect(numbers()).to.deep.equal([2, 0, 20, 1, 30]);
    end();
    change("d", { id: "d", state: "new" }, null);
    expect(numbers()).to.deep.equal([2, 0, 20, 1, 30]);
  });
});
