import { InvalidArgumentError } from "@diskmesh/domain";
import { expect } from "chai";
import { allPages, pageOfItems } from "./index.js";

const list = { what: "letters", keyOf: (letter: string) => letter };

describe("pages of a list in memory", () => {
  it("have each item once, in order, up to the page's size, and the last one has no token", async () => {
    const sizes: number[] = [];
    const all = await allPages(async (pageToken) => {
      const page = pageOfItems({ pageSize: 2, pageToken }, ["a", "b", "c", "d", "e"], list);
      sizes.push(page.items.length);
      return page;
    });
    expect(all).to.deep.equal(["a", "b", "c", "d", "e"]);
    expect(sizes).to.deep.equal([2, 2, 1]);
    expect(pageOfItems({ pageSize: 2, pageToken: "" }, ["a", "b"], list).nextPageToken).to.equal("");
    expect(pageOfItems({ pageSize: 2, pageToken: "" }, [], list)).to.deep.equal({ items: [], nextPageToken: "" });
  });

  it("continue behind the last item of the former page although it is gone, and end when nothing follows", () => {
    const { nextPageToken: pageToken } = pageOfItems({ pageSize: 2, pageToken: "" }, ["a", "b", "c"], list);
    expect(pageOfItems({ pageSize: 2, pageToken }, ["a", "aa", "c"], list).items).to.deep.equal(["c"]);
    expect(pageOfItems({ pageSize: 2, pageToken }, ["a"], list)).to.deep.equal({ items: [], nextPageToken: "" });
  });

  it("have a default size and a limit, and take the token of their own list alone", () => {
    const many = Array.from({ length: 2_000 }, (_, at) => String(10_000 + at));
    const sizeOf = (pageSize: number) => pageOfItems({ pageSize, pageToken: "" }, many, list).items.length;
    expect([0, 5_000].map(sizeOf)).to.deep.equal([100, 1_000]);
    const { nextPageToken: pageToken } = pageOfItems({ pageSize: 1, pageToken: "" }, many, list);
    for (const request of [
      { pageSize: -1, pageToken: "" },
      { pageSize: 1, pageToken: "x" },
    ])
      expect(() => pageOfItems(request, many, list)).to.throw(InvalidArgumentError);
    const other = { ...list, what: "digits" };
    expect(() => pageOfItems({ pageSize: 1, pageToken }, many, other)).to.throw(InvalidArgumentError);
    const filtered = { pageSize: 1, pageToken, deployment: "web" };
    expect(() => pageOfItems(filtered, many, list)).to.throw(InvalidArgumentError);
  });
});
