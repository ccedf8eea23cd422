CREATE TABLE "records" ("id" TEXT NOT NULL PRIMARY KEY, "value" TEXT NOT NULL, "created_at" INTEGER, "expires_at" INTEGER, "sweep_at" INTEGER NOT NULL DEFAULT 0, "version" INTEGER);
CREATE INDEX "records_sweep_at" ON "records" ("sweep_at");
