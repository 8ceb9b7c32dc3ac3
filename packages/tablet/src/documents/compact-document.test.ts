import { collectGarbage } from "@diskmesh/testkit";
import { expect } from "chai";
import { compactDocument } from "./compact-document.js";

interface Thing {
  readonly [name: string]: unknown;
  readonly generation: number;
}

const NAMES = Array.from({ length: 24 }, (_, index) => `name${index}`);
const DOCUMENTS = 20_000;

function thing(index: number): Thing {
  const text = JSON.stringify(Object.fromEntries(NAMES.map((name) => [name, "x"])));
  return { ...(JSON.parse(text) as object), generation: index };
}

/** Copies a frozen document with a rest pattern, as models do. */
function changed(document: Thing): Thing {
  const { removed: _, ...rest } = document;
  return { ...rest, generation: document.generation + 1 };
}

async function heapBytes(): Promise<number> {
  await collectGarbage();
  return process.memoryUsage().heapUsed;
}

async function bytesEach(make: (index: number) => object): Promise<number> {
  const before = await heapBytes();
  const documents = Array.from({ length: DOCUMENTS }, (_, index) => make(index));
  const after = await heapBytes();
  expect(documents).to.have.length(DOCUMENTS);
  return (after - before) / DOCUMENTS;
}

describe("a compact document", () => {
  const odd = JSON.parse('{"__proto__":{"a":1},"1":"one","a b":null,"list":[{"deep":[{}]},"é"],"no":false}') as object;

  it("equals the same JSON, frozen in depth, without undefined values", () => {
    const made = compactDocument({ ...odd, list: [{ deep: [{}], gone: undefined }, "é"], gone: undefined });
    expect(JSON.stringify(made)).to.equal(JSON.stringify({ ...odd }));
    expect(Object.hasOwn(compactDocument(odd), "__proto__")).to.equal(true);
    const { list } = made as unknown as { list: [{ deep: object[] }] };
    for (const part of [made, list, list[0], list[0].deep, list[0].deep[0]]) expect(part).to.satisfy(Object.isFrozen);
  });

  it("equals the original with many names or many kinds of values", () => {
    for (let count = 0; count < 5_000; count += 7) {
      const wide = Object.fromEntries(Array.from({ length: count % 300 }, (_, index) => [`n${index}`, count]));
      expect(compactDocument({ ...wide, [`kind${count}`]: 1 })).to.deep.equal({ ...wide, [`kind${count}`]: 1 });
    }
  });

  it("takes no more memory after repeated changes", async () => {
    const fresh = await bytesEach((index) => Object.freeze(thing(index)));
    const again = await bytesEach((index) =>
      compactDocument(changed(compactDocument(changed(compactDocument(thing(index)))))),
    );
    const bare = await bytesEach((index) =>
      Object.freeze(changed(Object.freeze(changed(Object.freeze(thing(index)))))),
    );
    expect(again / fresh, `${again} and ${fresh} bytes; ${bare} as they are`).to.be.below(1.2);
  });
});
