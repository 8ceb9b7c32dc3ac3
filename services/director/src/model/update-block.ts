import { InvalidArgumentError } from "@diskmesh/domain";

/** Numbers and shares in BOSH's `update`, which may be written as texts. Of at most nine digits. */
const COUNT = /^[0-9]{1,9}$/;
const SHARE = /^[0-9]{1,9}%$/;
const WATCH_TIME = /^\s*([0-9]{1,9})\s*(?:-\s*([0-9]{1,9})\s*)?$/;

/** Throws unless it is so many instances, or so many per cent of them: 2, "2", "20%". */
export function checkCount(value: unknown): void {
  if (isTextOrNumber(value) && (COUNT.test(String(value)) || SHARE.test(String(value)))) return;
  throw new InvalidArgumentError('give a whole number, or a share such as "20%"');
}

/** Throws unless it is so long, or at least and at most so long, in ms: 30000, "1000-60000". */
export function checkWatchTime(value: unknown): void {
  const match = isTextOrNumber(value) ? WATCH_TIME.exec(String(value)) : null;
  if (match === null)
    throw new InvalidArgumentError('give milliseconds, such as 30000, or a range, such as "1000-60000"');
  if (match[2] !== undefined && Number(match[1]) > Number(match[2]))
    throw new InvalidArgumentError("the least watch time is above the most");
}

function isTextOrNumber(value: unknown): value is string | number {
  return typeof value === "string" || typeof value === "number";
}
