/** The deployment whose instances get dynamic disks; it stays. */
export const WORK_DEPLOYMENT = "work";
/** The deployment that comes and goes. */
export const CHURN_DEPLOYMENT = "churn";
/** The disk type in the cloud config. */
export const DISK_TYPE = "default";
