/** Deployment whose instances get dynamic disks; it stays. */
export const WORK_DEPLOYMENT = "work";
/** Deployment that is created and deleted repeatedly. */
export const CHURN_DEPLOYMENT = "churn";
/** Disk type in the cloud config. */
export const DISK_TYPE = "default";
