import pLimit from "p-limit";

/** An item on which the work failed. */
export interface Failed<Item> {
  readonly item: Item;
  readonly error: unknown;
}

/** Works on all items, so many at once. None is left behind at work when another fails: then the first failure is thrown. */
export async function sideBySide<Item>(
  items: Iterable<Item>,
  atOnce: number,
  work: (item: Item) => Promise<void>,
): Promise<void> {
  const [first] = await triedSideBySide(items, atOnce, work, (failures) => failures.length === 0);
  if (first !== undefined) throw first.error;
}

/** Begins with no other one once it may not go on; what has begun is always finished. Returns what failed. */
export async function triedSideBySide<Item>(
  items: Iterable<Item>,
  atOnce: number,
  work: (item: Item) => Promise<void>,
  mayGoOn: (failures: readonly Failed<Item>[]) => boolean,
): Promise<Failed<Item>[]> {
  const failures: Failed<Item>[] = [];
  await pLimit(Math.max(1, atOnce)).map(items, async (item) => {
    if (!mayGoOn(failures)) return;
    await work(item).catch((error: unknown) => failures.push({ item, error }));
  });
  return failures;
}
