CREATE TABLE own (tenant INTEGER, name TEXT, text TEXT, "all" TEXT, made TEXT, "Ends" TEXT, "look at" INTEGER NOT NULL DEFAULT 0, "select" INTEGER, PRIMARY KEY (tenant, name));
CREATE INDEX "own_look at" ON "own" ("look at");
