import type { DataPages } from "./data-pages.js";
import { damagedPage, uint64At } from "./file-layout.js";

const NUMBER_SIZE_BYTES = 8;

/**
 * Checks what one entry of the tree of free pages lists: how many numbers follow, then pages, each by its number, or some
 * in a row by how many they are, as a negative number, and the first one. Zeros are room for more.
 */
export function checkFreeList(list: Buffer, page: number, pages: DataPages): void {
  const numbers = Math.floor(list.length / NUMBER_SIZE_BYTES) - 1;
  const length = numbers < 0 ? 0 : uint64At(list, 0);
  if (numbers < 0 || length > numbers)
    throw damagedPage(page, `it lists ${length} free pages with room for ${numbers}`);
  for (let index = 1; index <= length; index++) {
    let inRow = 1;
    let first = Number(list.readBigInt64LE(index * NUMBER_SIZE_BYTES));
    if (first === 0) continue;
    if (first < 0) {
      if (++index > length) throw damagedPage(page, "its list of free pages is cut off");
      inRow = -first;
      first = Number(list.readBigInt64LE(index * NUMBER_SIZE_BYTES));
    }
    pages.useFree(first, inRow, page);
  }
}
